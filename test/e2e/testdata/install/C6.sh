kubectl dovetail convert -f M2.yaml | kubectl apply -f -
