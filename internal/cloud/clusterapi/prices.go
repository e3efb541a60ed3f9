package clusterapi

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"sigs.k8s.io/yaml"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// priceAnnotations are those of MachineDeployments that say what a node costs, in dollars an hour. The
// first one that is there counts.
func priceAnnotations() []string {
	return []string{"cluster.x-k8s.io/machine-current-price", capacityPrefix + "price"}
}

// pricesBytesMax bounds a file with prices.
const pricesBytesMax = 1 << 20

// readPrices reads a file with prices in dollars an hour by name of instance type, as YAML or JSON.
func readPrices(path string) (map[string]float64, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	if info.Size() > pricesBytesMax {
		return nil, fmt.Errorf("read prices: %s has %d bytes; it may have %d", path, info.Size(), pricesBytesMax)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	prices := map[string]float64{}
	if err := yaml.UnmarshalStrict(text, &prices); err != nil {
		return nil, fmt.Errorf("read prices: %s must map names of instance types to dollars an hour: %w", path, err)
	}
	for _, name := range sortedKeys(prices) {
		if !isPrice(prices[name]) {
			return nil, fmt.Errorf("read prices: %s: the price of %s is %v; it may be 0 to %g", path, name, prices[name], catalog.PriceMax)
		}
	}
	return prices, nil
}

func isPrice(p float64) bool { return !math.IsNaN(p) && p >= 0 && p < catalog.PriceMax }

func parsePrice(text string) (float64, error) {
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || !isPrice(p) {
		return 0, fmt.Errorf("%q is not a price in dollars an hour", text)
	}
	return p, nil
}

// price returns what a node of a MachineDeployment costs; false: nobody says.
func (d *deployment) price(typ string, class *clusterapiv1alpha1.ClusterAPINodeClass, file map[string]float64) (dollars float64, known bool, err error) {
	for _, key := range priceAnnotations() {
		if text, ok := d.annotations[key]; ok {
			if dollars, err = parsePrice(text); err != nil {
				return 0, false, fmt.Errorf("annotation %s: %w", key, err)
			}
			return dollars, true, nil
		}
	}
	for i := range class.Spec.Types {
		if t := &class.Spec.Types[i]; t.Name == typ && t.PriceHourly != "" {
			if dollars, err = parsePrice(t.PriceHourly); err != nil {
				return 0, false, fmt.Errorf("spec.types of the node class, %s: %w", typ, err)
			}
			return dollars, true, nil
		}
	}
	dollars, known = file[typ]
	return dollars, known, nil
}
