package translate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/overlay"
)

// Overlay returns the core's form of a NodeOverlay.
func Overlay(no *karpenterv1alpha1.NodeOverlay, v Vocabulary) overlay.Overlay {
	o := overlay.Overlay{Name: no.Name, Requirements: label.Requirements{}, Capacity: Quantities(no.Spec.Capacity)}
	if no.Spec.Weight != nil {
		o.Weight = *no.Spec.Weight
	}
	var err error
	if o.Price, err = overlayPrice(&no.Spec); err != nil {
		o.Invalid = err.Error()
	}
	for _, r := range no.Spec.Requirements {
		q, err := label.Parse(label.Operator(r.Operator), r.Values)
		if err != nil {
			o.Invalid = fmt.Sprintf("requirement %s: %v", r.Key, err)
			continue
		}
		o.Requirements.Add(NormalKey(r.Key), q)
	}
	if err := ValidateOverlay(no, v); err != nil {
		o.Invalid = err.Error()
	}
	return o
}

// overlayPrice reads how an overlay corrects prices.
func overlayPrice(spec *karpenterv1alpha1.NodeOverlaySpec) (overlay.Price, error) {
	text, p := "", overlay.Price{}
	switch {
	case spec.Price != nil:
		text, p.Kind = *spec.Price, overlay.Absolute
	case spec.PriceAdjustment == nil:
		return p, nil
	default:
		text, p.Kind = *spec.PriceAdjustment, overlay.Plus
		if percent, ok := strings.CutSuffix(text, "%"); ok {
			text, p.Kind = percent, overlay.Times
		} else if text == strings.TrimLeft(text, "+-") {
			p.Kind = overlay.Absolute
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n > catalog.PriceMax || n < -catalog.PriceMax {
		return overlay.Price{}, fmt.Errorf("%q is no price, and no change of one", text)
	}
	if p.Amount = n; p.Kind == overlay.Times {
		p.Amount = 1 + n/100
	}
	return p, nil
}

// ValidateOverlay checks of a NodeOverlay what its CRD cannot.
func ValidateOverlay(no *karpenterv1alpha1.NodeOverlay, v Vocabulary) error {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	for i := range no.Spec.Requirements {
		r := &no.Spec.Requirements[i]
		path := spec.Child("requirements").Index(i)
		if key := NormalKey(r.Key); key == karpenterv1.NodePoolLabelKey {
			continue // overlays may be for one pool
		}
		errs = append(errs, validateRequirement(path, &karpenterv1.NodeSelectorRequirementWithMinValues{
			Key: r.Key, Operator: r.Operator, Values: r.Values,
		}, v)...)
	}
	for name, q := range no.Spec.Capacity {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
			errs = append(errs, field.Forbidden(spec.Child("capacity").Key(string(name)), "only extended resources can be added"))
		default:
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(spec.Child("capacity").Key(string(name)), q.String(), "it is negative"))
			}
		}
	}
	if _, err := overlayPrice(&no.Spec); err != nil {
		errs = append(errs, field.Invalid(spec.Child("price"), "", err.Error()))
	}
	return errs.ToAggregate()
}
