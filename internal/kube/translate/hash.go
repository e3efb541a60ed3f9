package translate

import (
	"strconv"

	"github.com/mitchellh/hashstructure/v2"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/convert"
)

// PoolHash returns the hash of a NodePool's template, by the rules of
// karpenterv1.NodePoolHashVersion. It equals Karpenter's, so that nodes made by
// Karpenter are not taken for drifted: the library, its options and the names of the
// types and fields in the template are all part of the result.
func PoolHash(np *karpenterv1.NodePool) string {
	// The only errors are unhashable types, and the template has none.
	h, _ := hashstructure.Hash(convert.Template(np), hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets: true, IgnoreZeroValue: true, ZeroNil: true,
	})
	return strconv.FormatUint(h, 10)
}
