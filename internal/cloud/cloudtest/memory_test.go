package cloudtest_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// decides is how long the memory takes to decide about a launch that it has accepted.
const decides = 100 * time.Millisecond

// memory is a cloud in memory. Its classes are default, accepts and fails. lie, if any, is the name of a
// sentence that it breaks.
type memory struct {
	lie string

	mu       sync.Mutex
	launched map[string]*memoryInstance // by token
	made     int
	// price is that of the large type; changed is called when it is another.
	price   float64
	changed func(cloud.ClassRef)
}

type memoryInstance struct {
	cloud.Instance
	request     cloud.LaunchRequest
	class       string
	at          time.Time
	number      int
	provisional string
}

func class(name string) cloud.ClassRef {
	return cloud.ClassRef{Group: "memory.test", Kind: "Class", Name: name}
}

// Name returns "memory".
func (*memory) Name() string { return "memory" }

// ClassKinds returns the only kind.
func (*memory) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "memory.test", Version: "v1", Kind: "Class"}}
}

// Vocabulary returns nothing.
func (*memory) Vocabulary() cloud.Vocabulary { return cloud.Vocabulary{} }

// Types returns two.
func (m *memory) Types(_ context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	if ref.Name == "missing" {
		return nil, cloud.ErrNotFound
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var types []*catalog.Type
	for i, name := range []string{"small", "large"} {
		draw := catalog.Draw{Supply: "memory/cores", Units: 1 + i, Left: 100}
		switch m.lie {
		case "less is left than nothing":
			draw.Left = -1
		case "offerings disagree about what is left":
			draw.Left -= i
		case "a supply has no name":
			draw.Supply = ""
		case "a node takes less than nothing":
			draw.Units = -1
		}
		types = append(types, &catalog.Type{
			Name: name, Capacity: quantity.List{quantity.CPU: 1000, quantity.Memory: 1 << 30, quantity.Pods: 10},
			Requirements: label.Requirements{
				label.InstanceType: label.In(name), label.Zone: label.In("a"), label.CapacityType: label.In("spot"), corev1.LabelOSStable: label.In("linux"),
			},
			Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", Available: true, Priced: true, PriceHourly: 1 + float64(i)*m.price, Draws: []catalog.Draw{draw}}},
		})
	}
	return types, nil
}

// OnTypesChanged has changed called when the price is another.
func (m *memory) OnTypesChanged(changed func(cloud.ClassRef)) { m.changed = changed }

// reprice changes the price.
func (m *memory) reprice(cloudtest.T) {
	m.mu.Lock()
	m.price++
	m.mu.Unlock()
	switch m.lie {
	case "a change is kept secret":
	case "a change is reported of another class":
		m.changed(class("accepts"))
	default:
		m.changed(class("default"))
	}
}

// Launch accepts, or refuses a missing class.
func (m *memory) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	var results []cloud.LaunchResult
	for _, r := range requests {
		if r.Class.Name == "missing" {
			results = append(results, cloud.LaunchResult{Err: &cloud.Failure{Kind: cloud.NoCapacity, Message: "there is no such class"}})
			continue
		}
		i := m.launched[r.Token]
		if i == nil || m.lie == "failures are forgotten" && m.now(i).Failed != nil {
			m.made++
			i = &memoryInstance{request: r, class: r.Class.Name, at: time.Now(), number: m.made, provisional: fmt.Sprintf("order-%d", m.made)}
			i.Instance = cloud.Instance{
				ID: fmt.Sprintf("memory://%d", m.made), Token: r.Token, Claim: r.Claim, Created: i.at,
				Labels:   map[string]string{label.InstanceType: r.Choices[0].Type.Name, label.Zone: "a", label.CapacityType: "spot", corev1.LabelOSStable: "linux"},
				Capacity: r.Choices[0].Type.Capacity, Allocatable: r.Choices[0].Type.Allocatable(),
			}
			m.launched[r.Token] = i
		}
		results = append(results, cloud.LaunchResult{Instance: m.now(i)})
	}
	return results
}

// now returns what an instance is by now.
func (m *memory) now(i *memoryInstance) cloud.Instance {
	is := i.Instance
	isDecided := time.Since(i.at) >= decides
	switch {
	case i.class == "accepts" && m.lie == "the ID is never provisional":
	case i.class == "accepts" && !isDecided, i.class == "fails":
		is.ID, is.Provisional = i.provisional, true
		if i.class == "fails" && isDecided {
			is.Failed = &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"}
		}
	case i.class == "accepts" && m.lie == "the final ID is the provisional one":
		is.ID = i.provisional
	}
	if is.Failed != nil && m.lie == "nobody knows where" {
		is.Labels = nil
	}
	return is
}

// Drifted says that each second instance has drifted.
func (m *memory) Drifted(_ context.Context, _ cloud.ClassRef, id string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.find(id)
	switch {
	case i == nil:
		return "", cloud.ErrNotFound
	case i.number%2 == 1:
		return "ImageDrifted", nil
	}
	return "", nil
}

// Owns knows instances by their scheme.
func (m *memory) Owns(id string) bool {
	switch m.lie {
	case "it owns all":
		return true
	case "it owns others":
		return strings.HasPrefix(id, "no-such-cloud://")
	}
	return strings.HasPrefix(id, "memory://") || strings.HasPrefix(id, "order-")
}

// ConditionNotices returns one.
func (m *memory) ConditionNotices() []cloud.ConditionNotice {
	kind := cloud.Reclaimed
	if m.lie == "a condition means that the instance has ended" {
		kind = cloud.Ended
	}
	return []cloud.ConditionNotice{{ConditionType: "PreemptionScheduled", ConditionStatus: "True", Kind: kind}}
}

// DriftBatch returns some number.
func (*memory) DriftBatch(cloud.ClassRef) int { return 10 }

// DriftedOf asks about each.
func (m *memory) DriftedOf(ctx context.Context, class cloud.ClassRef, ids []string) (map[string]cloud.Drift, error) {
	all := map[string]cloud.Drift{}
	for n, id := range ids {
		about := id
		if m.lie == "drift is another's" {
			about = ids[len(ids)-1-n]
		}
		var is cloud.Drift
		is.Reason, is.Err = m.Drifted(ctx, class, about)
		switch {
		case m.lie == "what has not drifted is left out" && is == (cloud.Drift{}):
		case m.lie == "what does not exist has not drifted" && is.Err != nil:
			all[id] = cloud.Drift{}
		default:
			all[id] = is
		}
	}
	return all, nil
}

func (m *memory) find(id string) *memoryInstance {
	for _, i := range m.launched {
		if m.lie == "the provisional ID is forgotten" && m.now(i).ID != id {
			continue
		}
		if id == i.ID || id == i.provisional {
			return i
		}
	}
	return nil
}

// Terminate ends at once.
func (m *memory) Terminate(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(id); i != nil && !(m.lie == "what is undecided stays" && m.now(i).Provisional) {
		delete(m.launched, i.Token)
	}
	return cloud.ErrNotFound
}

// Get returns an instance.
func (m *memory) Get(_ context.Context, id string) (cloud.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.find(id)
	if i == nil {
		return cloud.Instance{}, cloud.ErrNotFound
	}
	if is := m.now(i); is.Failed == nil || m.lie != "what has failed is gone" {
		return is, nil
	}
	return cloud.Instance{}, cloud.ErrNotFound
}

// List returns all.
func (m *memory) List(context.Context) ([]cloud.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []cloud.Instance
	for _, i := range m.launched {
		if is := m.now(i); is.Failed == nil || m.lie != "what has failed is not listed" {
			all = append(all, is)
		}
		if m.lie == "two of one launch are listed" && !m.now(i).Provisional {
			all = append(all, cloud.Instance{ID: i.provisional, Token: i.Token})
		}
	}
	return all, nil
}

// node returns the Node of an instance.
func (m *memory) node(t cloudtest.T, id string) *corev1.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.find(id)
	if i == nil {
		t.Fatalf("there is no instance %s", id)
	}
	labels := maps.Clone(i.Labels)
	maps.Copy(labels, i.request.Labels)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels, Annotations: i.request.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: m.now(i).ID},
		Status:     corev1.NodeStatus{Capacity: translate.ResourceList(i.Capacity)},
	}
	for _, taint := range i.request.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect)})
	}
	return node
}

func memoryHarness(lie string) cloudtest.Harness {
	m := &memory{lie: lie, price: 1, launched: map[string]*memoryInstance{}}
	return cloudtest.Harness{
		Provider: m, Restart: func(cloudtest.T) cloud.Provider { return m },
		Class: class("default"), Missing: class("missing"), Accepts: class("accepts"), Fails: class("fails"),
		Change: m.reprice, Changing: class("default"), Registered: true, Node: m.node,
	}
}

func TestAMemoryIsACloud(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, func(*testing.T) cloudtest.Harness { return memoryHarness("") })
}

// TestLiesAreFound: each of these sentences fails for a cloud that breaks it.
func TestLiesAreFound(t *testing.T) {
	t.Parallel()
	const (
		idLater   = "a provider ID that comes later replaces the provisional one"
		undecided = "an instance without its provider ID can end"
		failsLate = "a launch that fails later says so until it is terminated"
		reported  = "a change of types is reported"
		owns      = "an owner knows its instances by their IDs, and no others"
		drift     = "drift of many instances is that of each"
		whole     = "types are whole and do not contradict their offerings"
	)
	for lie, sentence := range map[string]string{
		"the ID is never provisional":                   idLater,
		"the final ID is the provisional one":           idLater,
		"the provisional ID is forgotten":               idLater,
		"two of one launch are listed":                  idLater,
		"what is undecided stays":                       undecided,
		"what has failed is gone":                       failsLate,
		"what has failed is not listed":                 failsLate,
		"nobody knows where":                            failsLate,
		"failures are forgotten":                        failsLate,
		"less is left than nothing":                     whole,
		"offerings disagree about what is left":         whole,
		"a supply has no name":                          whole,
		"a node takes less than nothing":                whole,
		"a change is kept secret":                       reported,
		"a change is reported of another class":         reported,
		"a condition means that the instance has ended": "conditions that are notices can be understood",
		"it owns all":                                   owns,
		"it owns others":                                owns,
		"drift is another's":                            drift,
		"what has not drifted is left out":              drift,
		"what does not exist has not drifted":           drift,
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			for _, test := range cloudtest.Tests() {
				if test.Name != sentence {
					continue
				}
				synctest.Test(t, func(t *testing.T) { // a test that waits for what never comes does so for a minute
					got := cloudtest.Check(t.Context(), test.Name, func(c cloudtest.T) { test.Run(c, memoryHarness(lie)) })
					if got.Verdict != cloudtest.Failed {
						t.Errorf("%s: %s %v, want that it fails", sentence, got.Verdict, got.Why)
					}
				})
			}
		})
	}
}
