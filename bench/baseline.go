package main

// baseline is what an earlier, independent study measured for Karpenter v1.14.1 with one
// worker, and a lower bound (configuration LP) that it computed; 0: none. It reports whether
// the Karpenter of this run behaves as it should, and checks Dovetail's own bounds.
type baseline struct{ price, cpuSeconds, bound float64 }

func baselines() map[string]baseline {
	return map[string]baseline{
		"p1a-diverse-aws-100":      {4.42, 0.074, 0},
		"p1a-diverse-aws-2000":     {84.25, 1.554, 0},
		"p1a-diverse-aws-5000":     {219.06, 6.407, 0},
		"p1a-diverse-fake400-2000": {689.61, 1.403, 0},
		"p1b-plain-aws-1000":       {23.31, 0.156, 20.10},
		"p1b-plain-aws-5000":       {120.04, 1.168, 99.95},
		"p1b-plain-aws-20000":      {463.80, 11.044, 386.50},
		"p1c-deploys-aws-1000":     {19.18, 0.128, 13.82},
		"p1c-deploys-aws-10000":    {223.06, 3.295, 179.45},
		"p2-big-awkward":           {162.24, 0.091, 145.74},
		"p2-jvm":                   {80.33, 0.121, 73.34},
		"p2-lognormal-4xl":         {67.42, 5.637, 59.42},
		"p2-mixed-cpu-mem-4xl":     {115.78, 1.043, 108.60},
		"p2-mixed-small":           {2.06, 0.011, 1.91},
		"p2-mixed-varied-4xl":      {172.56, 10.511, 149.49},
		"p2-small-cluster":         {4.13, 0.026, 2.97},
		"p2-small-cluster-4xl":     {3.36, 0.039, 3.05},
		"p2-tiny-cluster":          {1.22, 0.008, 0.69},
		"p2-uniform-small-4xl":     {22.32, 0.315, 22.19},
		"p2-web":                   {61.13, 0.627, 55.71},
		"p2-web-zonespread":        {58.02, 0.839, 55.71},
	}
}

// consolidationBounds are the same study's lower bounds of what all pods cost on fresh
// nodes.
func consolidationBounds() map[string]float64 {
	return map[string]float64{
		"p3-consolidate-100": 14.59, "p3-consolidate-100-4xl": 14.92, "p3-consolidate-500-4xl": 71.49,
		"p3-consolidate-1000": 143.73, "p3-consolidate-2000-4xl": 304.73,
	}
}
