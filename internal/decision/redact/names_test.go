package redact

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// TestKeysKeepTheirOrder has keys that stay and keys that people chose: the new ones sort as the old.
func TestKeysKeepTheirOrder(t *testing.T) {
	t.Parallel()
	keys := []string{
		"acme.com/a", "app", "karpenter.sh/nodepool", "kind", "kubernetes.io/arch", "kubernetes.io/os", "lifecycle", "node.kubernetes.io/instance-type",
		"size", "topology.kubernetes.io/zone", "zone", "acme.com/b", "kubernetes-acme.com/x",
	}
	slices.Sort(keys)
	n := New()
	for range 2 {
		for _, k := range keys {
			n.Key(k)
			n.Value(k, "acme")
		}
		if !n.numbered {
			n.Number()
		}
	}
	for i := range keys {
		for k := range keys {
			if a, b := n.Key(keys[i]), n.Key(keys[k]); cmp.Compare(a, b) != cmp.Compare(keys[i], keys[k]) {
				t.Errorf("%s and %s became %s and %s", keys[i], keys[k], a, b)
			}
		}
		if strings.Contains(n.Key(keys[i]), "acme") {
			t.Errorf("%s became %s", keys[i], n.Key(keys[i]))
		}
	}
}

// TestSentences redacts sentences of this program: names that were met, and words that nothing is known of, are others.
func TestSentences(t *testing.T) {
	t.Parallel()
	n := New()
	meet := func() {
		n.Name(Namespace, "acme-shop")
		n.Name(Pod, "acme-web-1")
		n.Name(Node, "ip-10-0-1-7")
		n.Name(Pool, "acme")
		n.Key("acme.com/team")
		n.Value("acme.com/team", "acme-data")
		n.plainly("m7g.4xlarge")
	}
	meet()
	n.Number()
	for _, c := range [][2]string{
		{"pod acme-shop/acme-web-1 would have nowhere to go: 3 cpu short", "pod namespace-1/pod-1 would have nowhere to go: 3 cpu short"},
		{"no pod event for 12s, consolidateAfter of pool acme is 30s", "no pod event for 12s, consolidateAfter of pool pool-1 is 30s"},
		{"acme.com/team must be In [acme-data], is In [other-team]", "key-1 must be In [value-1], is In [word-x1]"},
		{"no instance type holds 32 cpu; the largest, m7g.4xlarge, has 15.9 for pods", "no instance type holds 32 cpu; the largest, m7g.4xlarge, has 15.9 for pods"},
		{"annotation karpenter.sh/do-not-disrupt; the next try is not before 23:55:12", "annotation karpenter.sh/do-not-disrupt; the next try is not before 23:55:12"},
		{"pod gone/away-2 on ip-10-0-1-7.eu-west-1.compute.internal, 123456789012", "pod gone/word-x2 on word-x3, word-x4"},
		{"taint acme.com/team=acme-data:NoSchedule not tolerated", "taint key-1=value-1:NoSchedule not tolerated"},
		{"created 2026-11-26T10:50:50Z, asks for 8 cpu, 24Gi memory, $0.0190 per hour, 10.0.1.77", "created 2026-11-26T10:50:50Z, asks for 8 cpu, 24Gi memory, $0.0190 per hour, word-x5"},
	} {
		if got := n.Text(c[0]); got != c[1] {
			t.Errorf("%s\nbecame %s\nwant   %s", c[0], got, c[1])
		}
	}
}
