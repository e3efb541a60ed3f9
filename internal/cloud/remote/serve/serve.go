// Package serve puts a cloud.Provider in Go behind the protocol of api/provider/v1, for a controller
// that runs elsewhere. The provider finds its class objects and the cluster's API server itself: of
// what the controller sends, the names of classes are used.
//
// Read serve.go (what it is, and instances), launch.go and catalog.go, and notices.go.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

const (
	// pageInstances is how many instances a page of a list has.
	pageInstances = 200
	// socketMode lets only the same user connect.
	socketMode = 0o600
	// idsMax bounds one Terminate or Drift.
	idsMax = 1000
)

// Options are what a Server needs beside a provider.
type Options struct {
	// Version is the provider's; Epoch names this run of it. Both go to the controller.
	Version, Epoch string
	// ClusterUID is the UID of namespace kube-system of the cluster that the provider works for. Others
	// are refused. Empty: the provider's instances are taken to be those of whoever asks.
	ClusterUID string
	// IDPrefix is what the IDs of the provider's instances begin with, and those of no other provider; empty: they have no
	// form of their own.
	IDPrefix string
	// Patience is the longest that launches of any class may take, of a provider that is a cloud.Patient; zero: what it says of a
	// class without a name.
	Patience lifecycle.Patience
	// Poll is how often the provider's instance types are asked for while a controller follows them and the provider
	// does not say that they have changed; zero: every ten seconds.
	Poll time.Duration
	// Alive is how often something is written to streams on which nothing happens; zero: every 20
	// seconds.
	Alive time.Duration
	Log   *slog.Logger
}

const (
	pollUsual  = 10 * time.Second
	aliveUsual = 20 * time.Second
)

// Server is a provider behind the protocol.
type Server struct {
	providerv1.UnimplementedProviderServer
	provider cloud.Provider
	opts     Options

	mu sync.Mutex
	// streams are the streams of Catalog, each with its class; guarded by mu.
	streams map[chan<- struct{}]cloud.ClassRef
}

// New returns a server.
func New(p cloud.Provider, opts Options) *Server {
	if opts.Poll == 0 {
		opts.Poll = pollUsual
	}
	if opts.Alive == 0 {
		opts.Alive = aliveUsual
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{provider: p, opts: opts, streams: map[chan<- struct{}]cloud.ClassRef{}}
	if changer, is := p.(cloud.TypesChanger); is {
		changer.OnTypesChanged(s.typesChanged)
	}
	return s
}

// Listen listens on unix:///path, with a socket that only this user can open, or host:port. A socket
// that nobody listens on any more is replaced.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix://")
	if !isUnix {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	}
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("listen on %s: another process does", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Register adds the service to a gRPC server.
func (s *Server) Register(g grpc.ServiceRegistrar) { providerv1.RegisterProviderServer(g, s) }

// Describe says what the provider is and can.
func (s *Server) Describe(context.Context, *providerv1.DescribeRequest) (*providerv1.DescribeResponse, error) {
	d := &wire.Description{
		Name: s.provider.Name(), Version: s.opts.Version, Epoch: s.opts.Epoch, IDPrefix: s.opts.IDPrefix,
		ClassKinds: s.provider.ClassKinds(), Vocabulary: s.provider.Vocabulary(),
		Capabilities: map[providerv1.Capability]bool{providerv1.Capability_CAPABILITY_CATALOG_FOLLOW: true},
	}
	if _, able := s.provider.(cloud.Drifter); able {
		d.Capabilities[providerv1.Capability_CAPABILITY_DRIFT] = true
		d.Capabilities[providerv1.Capability_CAPABILITY_DRIFT_BATCH] = true
	}
	if _, able := s.provider.(cloud.Watcher); able {
		d.Capabilities[providerv1.Capability_CAPABILITY_NOTICES] = true
	}
	if _, able := s.provider.(cloud.Rebooter); able {
		d.Capabilities[providerv1.Capability_CAPABILITY_REBOOT] = true
	}
	if patience, is := s.patience(cloud.ClassRef{}); is {
		d.Patience = patience
		d.Capabilities[providerv1.Capability_CAPABILITY_ACCEPTED_LAUNCHES] = true
	}
	if r, able := s.provider.(cloud.Repairer); able {
		d.Repair = r.RepairPolicies()
	}
	if n, able := s.provider.(cloud.ConditionNoticer); able {
		d.Conditions = n.ConditionNotices()
	}
	return wire.Describe(d), nil
}

// patience returns how long launches of a class may take, without a class those of all; is: the provider says so, and launches may
// be decided later.
func (s *Server) patience(class cloud.ClassRef) (patience lifecycle.Patience, is bool) {
	patient, is := s.provider.(cloud.Patient)
	switch {
	case !is:
	case class == cloud.ClassRef{} && s.opts.Patience != lifecycle.Patience{}:
		patience = s.opts.Patience
	default:
		patience = patient.Patience(class)
	}
	return patience, is
}

// serves returns an error for a cluster that the provider does not work for.
func (s *Server) serves(c *providerv1.Cluster) error {
	if s.opts.ClusterUID != "" && c.GetUid() != s.opts.ClusterUID {
		return status.Errorf(codes.FailedPrecondition, "this provider works for the cluster %s, not for %q", s.opts.ClusterUID, c.GetUid())
	}
	return nil
}

// classRef returns the reference to the class of a message.
func classRef(c *providerv1.Class) cloud.ClassRef {
	return cloud.ClassRef{Group: c.GetGroup(), Kind: c.GetKind(), Name: c.GetName(), Kubelet: string(c.GetKubeletJson())}
}

// failed returns the status of an error of the provider.
func failed(err error) error {
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, cloud.ErrRebootRefused):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return status.FromContextError(err).Err()
	default:
		return status.Error(codes.Internal, err.Error())
	}
}

// failure returns the message for what a provider answers instead of doing it.
func failure(err error) *providerv1.Failure {
	var f *cloud.Failure
	if errors.As(err, &f) {
		return wire.Failure(f)
	}
	return &providerv1.Failure{Kind: providerv1.FailureKind_FAILURE_KIND_UNKNOWN_OUTCOME, Message: err.Error()}
}

// Terminate asks for the end of instances.
func (s *Server) Terminate(ctx context.Context, request *providerv1.TerminateRequest) (*providerv1.TerminateResponse, error) {
	if len(request.GetIds()) > idsMax {
		return nil, status.Errorf(codes.InvalidArgument, "%d ids; there may be %d", len(request.GetIds()), idsMax)
	}
	response := &providerv1.TerminateResponse{Ends: map[string]*providerv1.End{}}
	for _, id := range request.GetIds() {
		switch err := s.provider.Terminate(ctx, id); {
		case err == nil:
			response.Ends[id] = &providerv1.End{}
		case errors.Is(err, cloud.ErrNotFound):
			response.Ends[id] = &providerv1.End{Gone: true}
		default:
			response.Ends[id] = &providerv1.End{Failure: failure(err)}
		}
	}
	return response, nil
}

// Get returns one instance.
func (s *Server) Get(ctx context.Context, request *providerv1.GetRequest) (*providerv1.GetResponse, error) {
	instance, err := s.provider.Get(ctx, request.GetId())
	if err != nil {
		return nil, failed(err)
	}
	out := wire.Instance(&instance, "")
	if instance.ID != request.GetId() {
		out.ProvisionalId = request.GetId() // which it was asked for by
	}
	return &providerv1.GetResponse{Instance: out}, nil
}

// List sends all instances, in pages.
func (s *Server) List(request *providerv1.ListRequest, stream grpc.ServerStreamingServer[providerv1.InstancePage]) error {
	if err := s.serves(request.GetCluster()); err != nil {
		return err
	}
	instances, err := s.provider.List(stream.Context())
	if err != nil {
		return failed(err)
	}
	for {
		n := min(pageInstances, len(instances))
		last := n == len(instances)
		page := &providerv1.InstancePage{Last: last}
		for i := range instances[:n] {
			page.Instances = append(page.Instances, wire.Instance(&instances[i], request.GetCluster().GetUid()))
		}
		if err := stream.Send(page); err != nil || last {
			return err
		}
		instances = instances[n:]
	}
}

// Drift says which instances have drifted from their class. Those of which that is not known are left out.
func (s *Server) Drift(ctx context.Context, request *providerv1.DriftRequest) (*providerv1.DriftResponse, error) {
	drifter, able := s.provider.(cloud.Drifter)
	if !able {
		return s.UnimplementedProviderServer.Drift(ctx, request)
	}
	if len(request.GetIds()) > idsMax {
		return nil, status.Errorf(codes.InvalidArgument, "%d ids; there may be %d", len(request.GetIds()), idsMax)
	}
	class, response := classRef(request.GetClass()), &providerv1.DriftResponse{Reasons: map[string]string{}}
	answers, err := drifts(ctx, drifter, class, request.GetIds())
	if err != nil {
		return nil, failed(err)
	}
	for id, answer := range answers {
		switch {
		case errors.Is(answer.Err, cloud.ErrNotFound):
			response.NotFound = append(response.NotFound, id)
		case answer.Err != nil && len(answers) == 1:
			return nil, failed(answer.Err)
		case answer.Err != nil: // it is not known
		case answer.Reason == "":
			response.NotDrifted = append(response.NotDrifted, id)
		default:
			response.Reasons[id] = answer.Reason
		}
	}
	return response, nil
}

// drifts asks a provider about many instances, at once if it can be asked so.
func drifts(ctx context.Context, drifter cloud.Drifter, class cloud.ClassRef, ids []string) (map[string]cloud.Drift, error) {
	answers := make(map[string]cloud.Drift, len(ids))
	most := 0
	batcher, able := drifter.(cloud.DriftBatcher)
	if able {
		most = batcher.DriftBatch(class)
	}
	if most < 2 {
		for _, id := range ids {
			var answer cloud.Drift
			answer.Reason, answer.Err = drifter.Drifted(ctx, class, id)
			answers[id] = answer
		}
		return answers, nil
	}
	for batch := range slices.Chunk(ids, most) {
		some, err := batcher.DriftedOf(ctx, class, batch)
		if err != nil {
			return nil, err
		}
		maps.Copy(answers, some)
	}
	return answers, nil
}

// Reboot restarts an instance.
func (s *Server) Reboot(ctx context.Context, request *providerv1.RebootRequest) (*providerv1.RebootResponse, error) {
	rebooter, able := s.provider.(cloud.Rebooter)
	if !able {
		return s.UnimplementedProviderServer.Reboot(ctx, request)
	}
	err := rebooter.Reboot(ctx, cloud.RebootRequest{Token: request.GetToken(), InstanceID: request.GetInstanceId(), Node: request.GetNode()})
	if err != nil {
		return nil, failed(err)
	}
	return &providerv1.RebootResponse{}, nil
}

// typesChanged wakes the streams of a class.
func (s *Server) typesChanged(class cloud.ClassRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for changed, of := range s.streams {
		if of != class.Object() {
			continue
		}
		select {
		case changed <- struct{}{}:
		default: // it has not read since the last change
		}
	}
}
