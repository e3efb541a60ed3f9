package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// podsMax bounds how many pods manifests may ask for together.
const podsMax = 1_000_000

// Catalog is what can be launched, the labels that come with it, and which gates are on.
type Catalog struct {
	Types []*catalog.Type
	// TypesOf returns what the node class of a NodePool offers; nil: Types, whatever the class.
	TypesOf func(*karpenterv1.NodePool) []*catalog.Type
	// MustKnow: a NodePool of whose node class nothing is known is an error.
	MustKnow bool
	// Reads reports whether the types were made from objects of a kind that says nothing else here; nil: from none.
	Reads      func(kind string) bool
	Vocabulary cloud.Vocabulary
	Gates      Gates
}

// Manifests returns the case of Kubernetes manifests in files and directories: what
// would be launched for the pods of their workloads that have no node, from a catalog.
// A node class is taken to offer the whole catalog.
func Manifests(paths []string, from Catalog, at time.Time) (Case, error) {
	docs, err := documents(paths)
	if err != nil {
		return Case{}, err
	}
	m, err := readManifests(docs)
	if err != nil {
		return Case{}, err
	}
	return m.question(strings.Join(paths, " "), from, at)
}

// question returns the case of what was read.
func (m *manifests) question(name string, from Catalog, at time.Time) (Case, error) {
	vocabulary := translate.NewVocabulary(from.Vocabulary.WellKnown, from.Vocabulary.RestrictedDomains)
	store := mirror.NewStore(mirror.Options{
		Vocabulary: vocabulary, Now: func() time.Time { return at }, Manages: m.manages(), StaticCapacity: from.Gates.StaticCapacity,
	})
	for _, np := range m.pools {
		if err := translate.ValidatePool(np, vocabulary); err != nil {
			err = fmt.Errorf("NodePool %s: %w", np.Name, err)
			if d := m.at[np]; d != nil {
				err = d.wrap(err)
			}
			return Case{}, err
		}
		if class := np.Spec.Template.Spec.NodeClassRef; from.MustKnow && class != nil && from.TypesFor(np) == nil {
			err := fmt.Errorf("NodePool %s: this program does not know what node classes %s of %s offer; --catalog kwok or --catalog ec2 says what to presume", np.Name, class.Kind, class.Group)
			if d := m.at[np]; d != nil {
				err = d.wrap(err)
			}
			return Case{}, err
		}
		markReady(np)
		store.Pools().SetTypes(mirror.ClassOfPool(np), from.TypesFor(np), nil)
		if err := store.Observe(np); err != nil {
			return Case{}, err
		}
	}
	if err := store.Observe(m.others...); err != nil {
		return Case{}, err
	}
	c := Case{Name: name, Named: true}
	groups, err := m.observePods(store, &c)
	if err != nil {
		return Case{}, err
	}
	c.Notes = append(m.notes(&from), c.Notes...)
	if from.Gates.CapacityBuffer {
		if c.Buffers, err = m.observeBuffers(store); err != nil {
			return Case{}, err
		}
	}
	if from.Gates.StaticCapacity {
		if c.Static, err = m.scale(store, vocabulary, at); err != nil {
			return Case{}, err
		}
	}
	c.Snapshot = grouped(store.Snapshot(), groups)
	return c, nil
}

// TypesFor returns what can be launched from a NodePool.
func (c *Catalog) TypesFor(np *karpenterv1.NodePool) []*catalog.Type {
	if c.TypesOf != nil {
		return c.TypesOf(np)
	}
	return c.Types
}

// manages returns whether a pool or a claim names node classes of a group and kind, whose
// label on a node has the kind in small letters.
func (m *manifests) manages() func(group, kind string) bool {
	type groupKind struct{ group, kind string }
	named := map[groupKind]bool{}
	add := func(ref *karpenterv1.NodeClassReference) {
		if ref != nil {
			named[groupKind{ref.Group, strings.ToLower(ref.Kind)}] = true
		}
	}
	for _, np := range m.pools {
		add(np.Spec.Template.Spec.NodeClassRef)
	}
	for _, o := range m.others {
		if nc, ok := o.(*karpenterv1.NodeClaim); ok {
			add(nc.Spec.NodeClassRef)
		}
	}
	return func(group, kind string) bool { return named[groupKind{group, strings.ToLower(kind)}] }
}

// markReady gives the pool the condition that the controller would give it.
func markReady(np *karpenterv1.NodePool) {
	np.Status.Conditions = []metav1.Condition{{
		Type: karpenterv1.ConditionTypeReady, Status: metav1.ConditionTrue, ObservedGeneration: np.Generation,
	}}
}

// observePods shows the mirror every pod, and returns the group of each by its UID.
// Where the manifests have pods that workloads made, those workloads have theirs.
func (m *manifests) observePods(store *mirror.Store, c *Case) (map[types.UID]int, error) {
	groups := map[types.UID]int{}
	made := false
	for _, p := range m.pods {
		made = made || metav1.GetControllerOf(p) != nil
		name := p.Namespace + "/" + p.Name
		if owner := metav1.GetControllerOf(p); owner != nil {
			name = p.Namespace + "/" + owner.Name
		}
		groups[p.UID] = c.group(name)
		if m.fresh[p] {
			m.admission.admit(p)
		}
		if err := observePod(store, p); err != nil {
			return nil, err
		}
	}
	if made {
		c.Notes = append(c.Notes, "the pods are those given: workloads make no more")
		return groups, nil
	}
	total := 0
	for _, w := range m.workloads {
		if total += w.pods; total > podsMax {
			return nil, fmt.Errorf("%s %s/%s: more than %d pods in all", w.kind, w.namespace, w.name, podsMax)
		}
		g := c.group(w.namespace + "/" + w.name)
		for i := range w.pods {
			p := &corev1.Pod{ObjectMeta: *w.template.ObjectMeta.DeepCopy(), Spec: *w.template.Spec.DeepCopy()}
			p.Namespace, p.Name = w.namespace, fmt.Sprintf("%s-%d", w.name, i)
			p.UID = types.UID(fmt.Sprintf("%s/%s/%s", w.kind, w.namespace, p.Name))
			groups[p.UID] = g
			m.admission.admit(p)
			if err := observePod(store, p); err != nil {
				return nil, err
			}
		}
	}
	return groups, nil
}

// observePod shows the mirror one pod as kube-scheduler and the API server would have it:
// without a node it asks for one, unless kube-scheduler has said of it what it waits for.
func observePod(store *mirror.Store, p *corev1.Pod) error {
	judged := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if p.Spec.NodeName == "" && !judged {
		p.Status.Conditions = append(p.Status.Conditions[:0:0], corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		})
	}
	return store.Observe(p)
}

// group returns the index of a new group, or of the last if it has that name.
func (c *Case) group(name string) int {
	if n := len(c.Groups); n > 0 && c.Groups[n-1] == name {
		return n - 1
	}
	c.Groups = append(c.Groups, name)
	return len(c.Groups) - 1
}

// grouped returns the snapshot with the index of its group for the UID of each pending pod.
func grouped(snap *cluster.Snapshot, groups map[types.UID]int) *cluster.Snapshot {
	out := *snap
	out.Pending, out.Excluded = slices.Clone(snap.Pending), slices.Clone(snap.Excluded)
	for i := range out.Pending {
		out.Pending[i].UID = strconv.Itoa(groups[types.UID(out.Pending[i].UID)])
	}
	for i := range out.Excluded {
		out.Excluded[i].UID = strconv.Itoa(groups[types.UID(out.Excluded[i].UID)])
	}
	slices.SortFunc(out.Pending, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return &out
}
