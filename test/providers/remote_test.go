package providers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/sim/world"
)

// What goes wrong between the controller and a remote provider.
const (
	serverDown     trouble = "server is not there"
	serverAnew     trouble = "server starts anew"
	serverThrottle trouble = "server is asked too often"
	answerLost     trouble = "answer is lost"
	listCut        trouble = "list is cut short"
	typesCut       trouble = "instance types are cut short"
)

// clusterUID is that of the cluster of the worlds.
const clusterUID = "0b7c3c1e-5d2b-4f7f-9d6c-0e8f7a1b2c3d"

// remoteProvider is gRPC on a unix socket, with the world's cloud behind it.
func remoteProvider() provider {
	return provider{late: true, troubles: map[trouble]float64{serverDown: 0.2, serverAnew: 0.2, serverThrottle: 0.2, answerLost: 0.2, listCut: 0.8, typesCut: 0.5}, start: startRemote}
}

func startRemote(t *testing.T, w *wire) func(world.Seam) cloud.Provider {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	lives := 0
	return func(s world.Seam) cloud.Provider {
		lives++
		w.seam, w.isUp = s, false
		address := "unix://" + filepath.Join(dir, fmt.Sprint(lives))
		listener, err := serve.Listen(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		f := &faulty{wire: w}
		g := grpc.NewServer(grpc.UnaryInterceptor(f.unary), grpc.StreamInterceptor(f.stream))
		providerv1.RegisterProviderServer(g, &answering{Server: serve.New(s.Cloud, serve.Options{ClusterUID: clusterUID}), faulty: f})
		go func() { _ = g.Serve(listener) }() // until it is stopped
		link, err := remote.Open(remote.Options{Address: address, Cluster: remote.Cluster{Name: "world", UID: clusterUID}, Version: "test", Now: s.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = link.Close()
			g.Stop()
		})
		d, err := link.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.isUp = true
		return overWire{able: remote.New(link, d, classes{}, s.May).(able), t: t, w: w}
	}
}

// answering is a server that only answers: what it would send by itself the world would not wait for.
type answering struct {
	*serve.Server
	faulty *faulty
}

// Describe leaves out the capabilities for which streams stay open.
func (a *answering) Describe(ctx context.Context, r *providerv1.DescribeRequest) (*providerv1.DescribeResponse, error) {
	d, err := a.Server.Describe(ctx, r)
	if err != nil {
		return nil, err
	}
	var able []providerv1.Capability
	for _, c := range d.Capabilities {
		if c != providerv1.Capability_CAPABILITY_CATALOG_FOLLOW && c != providerv1.Capability_CAPABILITY_NOTICES {
			able = append(able, c)
		}
	}
	d.Capabilities, d.Epoch = able, fmt.Sprint(a.faulty.epoch)
	return d, nil
}

// faulty is what goes wrong on the wire.
type faulty struct {
	*wire
	epoch int
}

// before returns the error of a call that does not get through.
func (f *faulty) before(bad trouble) error {
	switch bad {
	case serverAnew:
		f.epoch++
		return status.Error(codes.Unavailable, "starting")
	case serverDown:
		return status.Error(codes.Unavailable, "down")
	case serverThrottle:
		return status.Error(codes.ResourceExhausted, "asked too often")
	default:
		return nil
	}
}

func (f *faulty) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	bad := f.draw(serverDown, serverAnew, serverThrottle, answerLost)
	if err := f.before(bad); err != nil {
		return nil, err
	}
	answer, err := handle(ctx, request)
	if bad == answerLost {
		return nil, status.Error(codes.Unavailable, "broken off")
	}
	return answer, err
}

func (f *faulty) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	cut := typesCut
	if info.FullMethod == providerv1.Provider_List_FullMethodName {
		cut = listCut
	}
	bad := f.draw(serverDown, serverAnew, serverThrottle, answerLost, cut)
	if err := f.before(bad); err != nil {
		return err
	}
	if bad == cut || bad == answerLost {
		stream = cutStream{stream}
	}
	if err := handle(server, stream); err != nil || bad != answerLost {
		return err
	}
	return status.Error(codes.Unavailable, "broken off")
}

// cutStream leaves out the last page.
type cutStream struct{ grpc.ServerStream }

// SendMsg sends a page.
func (c cutStream) SendMsg(page any) error {
	if p, is := page.(interface{ GetLast() bool }); is && p.GetLast() {
		return nil
	}
	return c.ServerStream.SendMsg(page)
}

// classes reads the world's only node class.
type classes struct{ client.Reader }

// Get returns it.
func (classes) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	object, isPlain := o.(*unstructured.Unstructured)
	if !isPlain || key.Name != class().Name {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "kwoknodeclasses"}, key.Name)
	}
	object.SetName(key.Name)
	object.SetUID("class")
	return nil
}

// whole is for calls that end when their answer is there, whoever was killed meanwhile: the world does not go on before.
func whole(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// able is what a remote provider is that can reboot.
type able interface {
	cloud.Provider
	cloud.Drifter
	cloud.Patient
	cloud.Repairer
	cloud.Rebooter
}

// overWire waits for its answers whoever was killed meanwhile, since the server is still at work.
type overWire struct {
	able
	t *testing.T
	w *wire
}

func (o overWire) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	return o.able.Types(whole(ctx), ref)
}

func (o overWire) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	return o.able.Launch(whole(ctx), requests)
}

func (o overWire) Terminate(ctx context.Context, id string) error {
	return o.able.Terminate(whole(ctx), id)
}

func (o overWire) Get(ctx context.Context, id string) (cloud.Instance, error) {
	return o.able.Get(whole(ctx), id)
}

func (o overWire) List(ctx context.Context) ([]cloud.Instance, error) {
	all, err := o.able.List(whole(ctx))
	if err == nil {
		o.w.isWhole(whole(ctx), o.t, all)
	}
	return all, err
}

func (o overWire) Drifted(ctx context.Context, ref cloud.ClassRef, id string) (string, error) {
	return o.able.Drifted(whole(ctx), ref, id)
}

func (o overWire) Reboot(ctx context.Context, r cloud.RebootRequest) error {
	return o.able.Reboot(whole(ctx), r)
}
