package kwok

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// podsDefault is how many pods a type takes that does not say.
const podsDefault = "110"

// fileType is one element of an instance types file. The spelling of the names is
// Karpenter's; encoding/json accepts them in any case.
type fileType struct {
	Name             string                     `json:"name"`
	Architecture     string                     `json:"architecture"`
	OperatingSystems []string                   `json:"operatingSystems"`
	Resources        map[string]json.RawMessage `json:"resources"`
	Offerings        []fileOffering             `json:"offerings"`
}

// fileOffering is one offering of a fileType. Available and ReservationCapacity, which
// such files have too, are not read: every offering can be had, any number of times.
type fileOffering struct {
	Price        *float64
	Requirements []fileRequirement
}

type fileRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// loadTypes reads instance types from a JSON file. The error names the file, the
// element and the field that is wrong.
func loadTypes(path string) ([]*catalog.Type, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read instance types: %w", err)
	}
	types, err := parseTypes(content)
	if err != nil {
		return nil, fmt.Errorf("instance types file %s: %w", path, err)
	}
	return types, nil
}

// fileDevices is what an element says of devices: the ResourceSlices that a driver, which is not ours,
// publishes on nodes of the type. It is Dovetail's own addition to such files.
type fileDevices struct {
	Name           string                          `json:"name"`
	ResourceSlices []resourceapi.ResourceSliceSpec `json:"resourceSlices"`
}

// loadDevices reads the devices of the instance types from the same file.
func loadDevices(path string) (map[string][]resourceapi.ResourceSliceSpec, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read instance types: %w", err)
	}
	var elements []fileDevices
	if err := json.Unmarshal(content, &elements); err != nil {
		return nil, fmt.Errorf("instance types file %s: resourceSlices: %w", path, inField(err))
	}
	devices := map[string][]resourceapi.ResourceSliceSpec{}
	for i := range elements {
		if len(elements[i].ResourceSlices) > 0 {
			devices[elements[i].Name] = elements[i].ResourceSlices
		}
	}
	return devices, nil
}

func parseTypes(content []byte) ([]*catalog.Type, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(content, &elements); err != nil {
		return nil, fmt.Errorf("not a JSON array: %w", located(content, err))
	}
	if len(elements) == 0 {
		return nil, errors.New("holds no instance types")
	}
	types := make([]*catalog.Type, 0, len(elements))
	seen := map[string]int{}
	for i, element := range elements {
		s, err := parseSize(element)
		if err != nil {
			return nil, fmt.Errorf("element %d (%s): %w", i, nameIn(element), err)
		}
		if first, twice := seen[s.name]; twice {
			return nil, fmt.Errorf("element %d (%s): name: element %d has the same", i, s.name, first)
		}
		seen[s.name] = i
		types = append(types, s.catalogType())
	}
	return types, nil
}

func parseSize(element json.RawMessage) (size, error) {
	var f fileType
	if err := json.Unmarshal(element, &f); err != nil {
		return size{}, inField(err)
	}
	s := size{name: f.Name, arch: f.Architecture, systems: f.OperatingSystems}
	var err error
	switch {
	case len(validation.IsValidLabelValue(f.Name)) > 0 || f.Name == "":
		return s, fmt.Errorf("name: %q is not a label value", f.Name)
	case len(validation.IsValidLabelValue(f.Architecture)) > 0 || f.Architecture == "":
		return s, fmt.Errorf("architecture: %q is not a label value such as amd64", f.Architecture)
	case len(f.OperatingSystems) == 0:
		return s, errors.New("operatingSystems: empty; name at least one, such as linux")
	case len(f.Offerings) == 0:
		return s, errors.New("offerings: empty; there must be at least one")
	}
	for i, system := range f.OperatingSystems {
		if len(validation.IsValidLabelValue(system)) > 0 || system == "" {
			return s, fmt.Errorf("operatingSystems[%d]: %q is not a label value such as linux", i, system)
		}
	}
	if s.resources, err = parseResources(f.Resources); err != nil {
		return s, err
	}
	for i, offering := range f.Offerings {
		o, err := parseOffering(offering)
		if err != nil {
			return s, fmt.Errorf("offerings[%d].%w", i, err)
		}
		s.offerings = append(s.offerings, o)
	}
	return s, nil
}

func parseResources(in map[string]json.RawMessage) (corev1.ResourceList, error) {
	list := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(podsDefault)}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		var q resource.Quantity
		text := in[name]
		if err := json.Unmarshal(text, &q); err != nil {
			return nil, fmt.Errorf("resources.%s: %s is not a quantity such as 4 or 16Gi", name, text)
		}
		if q.Sign() < 0 {
			return nil, fmt.Errorf("resources.%s: %s is negative", name, text)
		}
		list[corev1.ResourceName(name)] = q
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := list[name]; q.IsZero() {
			return nil, fmt.Errorf("resources.%s: missing or zero", name)
		}
	}
	return list, nil
}

func parseOffering(in fileOffering) (catalog.Offering, error) {
	o := catalog.Offering{Available: true}
	if in.Price != nil {
		if *in.Price < 0 {
			return o, fmt.Errorf("price: %v is negative", *in.Price)
		}
		o.PriceHourly, o.Priced = *in.Price, true
	}
	for i, r := range in.Requirements {
		switch {
		case len(validation.IsQualifiedName(r.Key)) > 0:
			return o, fmt.Errorf("requirements[%d].key: %q is not a label key", i, r.Key)
		case r.Operator == string(label.OpDoesNotExist):
			continue // an absent label is what an offering has without a word on it
		case r.Operator != string(label.OpIn) || len(r.Values) != 1:
			return o, fmt.Errorf("requirements[%d]: %s must be In with one value, because an offering is one thing to launch", i, r.Key)
		case len(validation.IsValidLabelValue(r.Values[0])) > 0:
			return o, fmt.Errorf("requirements[%d].values: %q is not a label value", i, r.Values[0])
		}
		switch r.Key {
		case label.Zone:
			o.Zone = r.Values[0]
		case label.CapacityType:
			o.CapacityType = r.Values[0]
		default:
			if o.Labels == nil {
				o.Labels = map[string]string{}
			}
			o.Labels[r.Key] = r.Values[0]
		}
	}
	switch {
	case o.CapacityType == "":
		return o, fmt.Errorf("requirements: no entry for %s", label.CapacityType)
	case o.Zone == "":
		return o, fmt.Errorf("requirements: no entry for %s", label.Zone)
	}
	return o, nil
}

// nameIn returns the name in an element that may be anything.
func nameIn(element json.RawMessage) string {
	var named struct{ Name any }
	if err := json.Unmarshal(element, &named); err != nil || named.Name == nil {
		return "no name"
	}
	return fmt.Sprint(named.Name)
}

// inField puts the field first in an error about its type.
func inField(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: is a %s, must be a %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

// located adds the line to an error about syntax.
func located(content []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: %w", 1+strings.Count(string(content[:syntax.Offset]), "\n"), err)
	}
	return err
}
