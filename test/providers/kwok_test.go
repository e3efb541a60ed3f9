package providers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/sim/world"
)

// What goes wrong between the provider kwok and its API server.
const (
	serverGone    trouble = "API server does not answer"
	nodeWriteLost trouble = "answer to the write of a Node is lost"
)

// kwokProvider is an API server in memory with the Nodes of the provider kwok, and an instance of the world's cloud for each, which
// is what KWOK does there.
func kwokProvider() provider {
	return provider{
		troubles: map[trouble]float64{serverGone: 0.1, nodeWriteLost: 0.3}, start: startKWOK,
		// Its reboots are of Nodes alone, and its instances do not drift.
		without: []world.Fault{world.Reboots, world.Drift},
	}
}

func startKWOK(t *testing.T, w *wire) func(world.Seam) cloud.Provider {
	t.Helper()
	k := &kubelets{t: t, wire: w, requests: map[string]cloud.LaunchRequest{}, instances: map[string]string{}, refused: map[string]*cloud.Failure{}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, kwokv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	k.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(&kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: class().Name}}).Build()
	return func(s world.Seam) cloud.Provider {
		k.seam, k.isUp = s, true
		p, err := kwok.New(k.reached(s), kwok.Options{Now: s.Now})
		if err != nil {
			t.Fatal(err)
		}
		return hollow{Provider: p, k: k}
	}
}

// kubelets is the API server, and KWOK in it, which works whenever the provider is asked something.
type kubelets struct {
	*wire
	client.Client
	t    *testing.T
	made atomic.Int64
	// requests are by token; instances of the world's cloud, and its refusals, by the name of the Node.
	requests  map[string]cloud.LaunchRequest
	instances map[string]string
	refused   map[string]*cloud.Failure
}

// kwokToken is where a Node of the provider kwok has its token.
const kwokToken = kwokv1alpha1.Group + "/launch-token"

// nodeOf returns the name of the Node that the provider kwok has an instance for.
func nodeOf(instanceID string) string { return strings.TrimPrefix(instanceID, "kwok://") }

// reached is the API server as one life of the product reaches it.
func (k *kubelets) reached(s world.Seam) client.WithWatch {
	write := func(do func() error) error {
		if err := s.May(); err != nil {
			return err
		}
		if k.draw(serverGone) != "" {
			return apierrors.NewServiceUnavailable("test: down")
		}
		err := do()
		if k.draw(nodeWriteLost) != "" {
			return apierrors.NewTimeoutError("test: lost", 1)
		}
		return err
	}
	read := func(do func() error) error {
		if k.draw(serverGone) != "" {
			return apierrors.NewServiceUnavailable("test: down")
		}
		return do()
	}
	return interceptor.NewClient(k.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return read(func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return read(func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(func() error {
				o.SetUID(types.UID(fmt.Sprintf("node-%d", k.made.Add(1))))
				o.SetCreationTimestamp(metav1.NewTime(s.Time().Truncate(time.Second)))
				return c.Create(ctx, o, opts...)
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, opts...) })
		},
	})
}

// reconcile has each Node have its instance, and no instance be without its Node.
func (k *kubelets) reconcile(ctx context.Context) {
	instances, err := k.seam.Cloud.List(ctx)
	if err != nil {
		return // the cloud is not there: the next time
	}
	running := map[string]string{}
	for i := range instances {
		if !instances[i].Terminating {
			running[instances[i].Token] = instances[i].ID
		}
	}
	nodes := &corev1.NodeList{}
	if err := k.List(ctx, nodes); err != nil {
		k.t.Error(err)
	}
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		id := running[name]
		delete(running, name)
		if id == "" && k.instances[name] == "" {
			id = k.boot(ctx, &nodes.Items[i])
			if id == "" && k.refused[name] == nil {
				continue // it is not known: the next time
			}
		}
		if k.instances[name] = id; id == "" { // it is gone, or was refused, and so is the Node
			if err := client.IgnoreNotFound(k.Delete(ctx, &nodes.Items[i])); err != nil {
				k.t.Error(err)
			}
		}
	}
	for _, id := range running {
		_ = k.seam.Cloud.Terminate(ctx, id) // until it is not listed any more
	}
}

// boot launches the instance of a Node, which is what the Node says that it is.
func (k *kubelets) boot(ctx context.Context, node *corev1.Node) (id string) {
	delete(k.refused, node.Name)
	r := k.requests[node.Annotations[kwokToken]]
	var choices []catalog.Choice
	for _, c := range r.Choices {
		if c.Type.Name == node.Labels[label.InstanceType] && c.Offering.Zone == node.Labels[label.Zone] && c.Offering.CapacityType == node.Labels[label.CapacityType] {
			choices = append(choices, c)
		}
	}
	r.Choices, r.Token = choices, node.Name // another Node would be another instance
	result := k.seam.Cloud.Launch(ctx, []cloud.LaunchRequest{r})[0]
	if refused := (*cloud.Failure)(nil); errors.As(result.Err, &refused) {
		k.refused[node.Name] = refused
	}
	if result.Err != nil {
		return ""
	}
	return result.Instance.ID
}

// hollow is the provider, whose Nodes have the IDs of their instances.
type hollow struct {
	*kwok.Provider
	k *kubelets
}

// call begins a call of the provider.
func (h hollow) call(ctx context.Context) context.Context {
	ctx = context.WithoutCancel(ctx) // the world goes on when the answer is there, whoever was killed meanwhile
	h.k.reconcile(ctx)
	return ctx
}

// Types are the world's, of a class that the API server has.
func (h hollow) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	ctx = h.call(ctx)
	if _, err := h.Provider.Types(ctx, ref); err != nil {
		return nil, err
	}
	return h.k.seam.Cloud.Types(ctx, ref)
}

func (h hollow) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	ctx = h.call(ctx)
	for _, r := range requests {
		h.k.requests[r.Token] = r
	}
	results := h.Provider.Launch(ctx, requests)
	h.k.reconcile(ctx)
	for i := range results {
		name := nodeOf(results[i].Instance.ID)
		switch {
		case results[i].Err != nil:
		case h.k.refused[name] != nil:
			results[i] = cloud.LaunchResult{Err: h.k.refused[name]}
		case h.k.instances[name] == "":
			results[i] = cloud.LaunchResult{Err: errors.New("test: KWOK has not seen the Node yet")}
		default:
			results[i].Instance.ID = h.k.instances[name]
		}
	}
	return results
}

// own returns kwok's ID of an instance; the world's own if it has none.
func (h hollow) own(ctx context.Context, id string) string {
	nodes := &corev1.NodeList{}
	if err := h.k.List(ctx, nodes); err != nil {
		h.k.t.Error(err)
	}
	for i := range nodes.Items {
		if h.k.instances[nodes.Items[i].Name] == id {
			return nodes.Items[i].Spec.ProviderID
		}
	}
	return id
}

func (h hollow) Terminate(ctx context.Context, id string) error {
	ctx = h.call(ctx)
	if err := h.Provider.Terminate(ctx, h.own(ctx, id)); !errors.Is(err, cloud.ErrNotFound) {
		return err
	}
	h.k.reconcile(ctx)
	return h.k.seam.Cloud.Terminate(ctx, id) // a Node is gone at once, an instance is not
}

func (h hollow) Get(ctx context.Context, id string) (cloud.Instance, error) {
	ctx = h.call(ctx)
	instance, err := h.Provider.Get(ctx, h.own(ctx, id))
	instance.ID = id
	return instance, err
}

func (h hollow) List(ctx context.Context) ([]cloud.Instance, error) {
	ctx = h.call(ctx)
	all, err := h.Provider.List(ctx)
	for i := range all {
		if id := h.k.instances[nodeOf(all[i].ID)]; id != "" {
			all[i].ID = id
		}
	}
	if err == nil {
		h.k.isWhole(ctx, h.k.t, all)
	}
	return all, err
}
