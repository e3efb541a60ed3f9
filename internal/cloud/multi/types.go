package multi

import (
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// classesMax bounds the classes whose types are kept.
const classesMax = 256

// types are the members' instance types with what the vocabulary of the others says of them. A label that only
// another member gives meaning to is well-known in the whole process, so a NodePool leaves it open; but no node of
// this member has it, and a pod that asks for it must not be planned for one.
type types struct {
	// lacks are, by member, the labels that its nodes do not have.
	lacks [][]string

	mu sync.Mutex
	// limited are the types of the last answer, by class and by the member's own; guarded by mu.
	limited map[cloud.ClassRef]map[*catalog.Type]*catalog.Type
}

func newTypes(members []cloud.Provider) *types {
	t := &types{lacks: make([][]string, len(members)), limited: map[cloud.ClassRef]map[*catalog.Type]*catalog.Type{}}
	for i, member := range members {
		own := member.Vocabulary().WellKnown
		for _, other := range members {
			for _, key := range other.Vocabulary().WellKnown {
				if !isGeneric(key) && !slices.Contains(own, key) && !slices.Contains(t.lacks[i], key) {
					t.lacks[i] = append(t.lacks[i], key)
				}
			}
		}
	}
	return t
}

// isGeneric reports whether a label is not one provider's own, so that a NodePool may set it on nodes of any.
func isGeneric(key string) bool {
	domain, _, hasDomain := strings.Cut(key, "/")
	return !hasDomain || slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "karpenter.sh"}, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

// limit returns the types without what they lack. A type that is the same as in the last answer gets the same.
func (t *types) limit(class cloud.ClassRef, own []*catalog.Type, lacks []string) []*catalog.Type {
	t.mu.Lock()
	defer t.mu.Unlock()
	had, now := t.limited[class], make(map[*catalog.Type]*catalog.Type, len(own))
	out := make([]*catalog.Type, len(own))
	for i, is := range own {
		if out[i] = had[is]; out[i] == nil {
			out[i] = without(is, lacks)
		}
		now[is] = out[i]
	}
	if had == nil && len(t.limited) >= classesMax {
		clear(t.limited)
	}
	t.limited[class] = now
	return out
}

// without returns a type whose nodes do not have these labels, unless the type says something of them itself.
func without(is *catalog.Type, lacks []string) *catalog.Type {
	limited := *is
	limited.Requirements = make(label.Requirements, len(is.Requirements)+len(lacks))
	for _, key := range lacks {
		limited.Requirements[key] = label.DoesNotExist()
	}
	for key, requirement := range is.Requirements {
		limited.Requirements[key] = requirement
	}
	return &limited
}
