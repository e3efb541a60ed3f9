package wire

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// What one message may hold at most. The bounds are far above what clouds sell, and keep the
// memory of the controller in proportion to what it is for.
const (
	// TypesMax bounds the instance types of one class.
	TypesMax = 20_000
	// OfferingsMax bounds their offerings.
	OfferingsMax = 500_000

	// SuppliesMax bounds the supplies of one class.
	SuppliesMax = 1_000

	offeringsOfTypeMax = 2_000
	drawsMax           = 16
	requirementsMax    = 200
	valuesMax          = 5_000
	resourcesMax       = 200
	labelsMax          = 200
	placesMax          = 2_000
	// InstancesMax bounds a list of instances.
	InstancesMax = 100_000
	// idBytesMax bounds what names an instance, an offering or a token.
	idBytesMax = 512
	// textBytesMax bounds what is shown to people.
	textBytesMax = 1024
)

// Text returns what a provider wrote for people, without control characters and cut to 1 kB.
func Text(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if len(s) <= textBytesMax {
		return s
	}
	cut := textBytesMax
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// checkID returns an error unless s can name something of the provider's: printable ASCII without
// spaces, of limited length.
func checkID(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty", what)
	}
	return checkIDOrNone(what, s)
}

func checkIDOrNone(what, s string) error {
	if len(s) > idBytesMax {
		return fmt.Errorf("%s has %d bytes; it may have %d", what, len(s), idBytesMax)
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("%s %q has characters other than printable ASCII", what, s)
		}
	}
	return nil
}

func checkKey(key string) error {
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		return fmt.Errorf("label key %q: %s", Text(key), wrong[0])
	}
	return nil
}

func checkValue(what, value string) error {
	if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
		return fmt.Errorf("%s %q is no label value: %s", what, Text(value), wrong[0])
	}
	return nil
}

func checkCount(what string, n, most int) error {
	if n > most {
		return fmt.Errorf("%d %s; there may be %d", n, what, most)
	}
	return nil
}

// checkLabels returns an error unless these can be labels of a Node.
func checkLabels(labels map[string]string) error {
	if err := checkCount("labels", len(labels), labelsMax); err != nil {
		return err
	}
	for key, value := range labels {
		if err := checkKey(key); err != nil {
			return err
		}
		if err := checkValue("label "+key, value); err != nil {
			return err
		}
	}
	return nil
}

// checkAnnotations returns an error unless these can be annotations of a Node.
func checkAnnotations(annotations map[string]string) error {
	if err := checkCount("annotations", len(annotations), labelsMax); err != nil {
		return err
	}
	for key, value := range annotations {
		if err := checkKey(key); err != nil {
			return err
		}
		if len(value) > textBytesMax || !utf8.ValidString(value) {
			return fmt.Errorf("annotation %s has %d bytes; it may have %d, of UTF-8", key, len(value), textBytesMax)
		}
	}
	return nil
}

// amounts reads a list of resources.
func amounts(what string, in map[string]int64) (quantity.List, error) {
	if err := checkCount("resources in "+what, len(in), resourcesMax); err != nil {
		return nil, err
	}
	out := make(quantity.List, len(in))
	for name, amount := range in {
		if err := checkKey(name); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if amount < 0 || amount == math.MaxInt64 {
			return nil, fmt.Errorf("%s of %s is %d; it may be 0 or more", what, name, amount)
		}
		out[name] = amount
	}
	return out, nil
}
