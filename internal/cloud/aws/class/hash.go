package class

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
)

// dynamic lists the fields that are not part of the hash: what they select is compared
// with what an instance has, or they only matter to new instances. The family and the kubelet
// come in by what they mean.
var dynamic = []string{ //nolint:gochecknoglobals // a constant that Go cannot spell
	"subnetSelectorTerms", "securityGroupSelectorTerms", "capacityReservationSelectorTerms", "amiSelectorTerms",
	"ipPrefixCount", "amiFamily", "kubelet",
}

// Hash returns a number that differs when the instances of a class would differ, by the
// rules of awsv1.HashVersion: the order of lists does not matter, and neither does the
// difference between false, 0 or empty and not set. In the kubelet's configuration every
// difference matters. ca is the certificate of the cluster.
func Hash(c *awsv1.EC2NodeClass, ca string) string {
	spec := map[string]any{}
	text, err := json.Marshal(c.Spec)
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	var own []byte
	if kubelet, _ := spec["kubelet"].(map[string]any); err == nil && len(kubelet) > 0 {
		own, err = json.Marshal(kubelet)
	}
	if err != nil {
		panic("node class " + c.Name + " cannot be written: " + err.Error()) // it was read from JSON
	}
	spec["family"], spec["ca"], spec["kubeletConfiguration"] = family.Of(&c.Spec).Name, ca, string(own)
	for _, field := range dynamic {
		delete(spec, field)
	}
	sum := sha256.Sum256([]byte(canonical(spec)))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:]), 10)
}

// canonical writes a value of JSON such that what counts as equal is written the same;
// what counts as not set is empty.
func canonical(value any) string {
	var parts []string
	switch v := value.(type) {
	case nil:
		return ""
	case map[string]any:
		for key, field := range v {
			if text := canonical(field); text != "" {
				parts = append(parts, strconv.Quote(key)+":"+text)
			}
		}
	case []any:
		for _, item := range v {
			parts = append(parts, canonical(item))
		}
	case string:
		if v != "" {
			return strconv.Quote(v)
		}
		return ""
	default: // a number or a truth value
		if text := fmt.Sprint(v); text != "0" && text != "false" {
			return text
		}
		return ""
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}"
}
