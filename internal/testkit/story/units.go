package story

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Now is the instant of every story.
func Now() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

const (
	arch        = "kubernetes.io/arch"
	reservation = "reservation"
)

// amount reads a quantity in the core's units.
func amount(name, text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	return translate.Amount(corev1.ResourceName(name), q), nil
}
