kubectl scale deployment my-app --replicas=50
