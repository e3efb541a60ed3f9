// Command prometheus writes the Grafana dashboards of the chart. Its tests evaluate them and the chart's
// rules against a recorded run of the controller (testdata/recording.gz, which make record-metrics
// writes), and compare what they name with what the controller serves.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	output := flag.String("output", "../../deploy/charts/karpenter/dashboards", "directory to write to")
	flag.Parse()
	for _, d := range dashboards() {
		text, err := d.json()
		if err == nil {
			err = os.WriteFile(filepath.Join(*output, d.Name+".json"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// dashboards returns all dashboards.
func dashboards() []dashboard {
	return []dashboard{capacity(), performance(), decisions(), interruption(), cost()}
}
