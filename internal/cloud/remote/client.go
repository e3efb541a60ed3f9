package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
)

const (
	// messageBytesMax bounds one message in either direction; it is gRPC's own default for what is
	// received.
	messageBytesMax = 4 << 20
	// connectFirst and connectMost bound the wait between attempts to connect.
	connectFirst, connectMost = 200 * time.Millisecond, 10 * time.Second
)

// Deadlines bound how long an answer is waited for.
type Deadlines struct {
	Describe, Catalog, Launch, Terminate, Get, List, Drift, Reboot time.Duration
	// Silence is for how long an open stream may be without a message.
	Silence time.Duration
}

// DefaultDeadlines are those of the protocol.
func DefaultDeadlines() Deadlines {
	return Deadlines{
		Describe: 5 * time.Second, Catalog: time.Minute, Launch: 2 * time.Minute, Terminate: 30 * time.Second,
		Get: 10 * time.Second, List: time.Minute, Drift: 30 * time.Second, Reboot: 30 * time.Second, Silence: 90 * time.Second,
	}
}

// Rule is what a provider did that the protocol forbids. Rules are the values of a metric's label.
type Rule string

// The rules.
const (
	RuleDescribe        Rule = "describe"
	RuleCatalog         Rule = "catalog"
	RuleLaunch          Rule = "launch"
	RuleInstance        Rule = "instance"
	RuleListCut         Rule = "list_cut_short"
	RuleListTwice       Rule = "list_twice"
	RuleForeignInstance Rule = "foreign_instance"
	RuleTokenTwice      Rule = "token_twice"
	RuleAccepted        Rule = "accepted"
	RuleDrift           Rule = "drift"
	RuleNotice          Rule = "notice"
)

// Meter counts what happens on the wire.
type Meter interface {
	// Called is a call that has ended; code is gRPC's.
	Called(method, code string)
	// Broken is an answer, or a part of one, that was refused; err says why.
	Broken(rule Rule, err error)
	// Connected reports whether the provider answered Describe at the last attempt.
	Connected(is bool)
	// Epoch is a provider that has started anew.
	Epoch()
}

// Cluster is the cluster that instances are for.
type Cluster struct{ Name, UID string }

// Options are what a Client needs.
type Options struct {
	// Address is unix:///path or dns:///host:port.
	Address string
	// Files are the certificates; none: only for a unix socket, or with Plaintext.
	Files Files
	// Plaintext allows TCP without TLS to an address of this computer.
	Plaintext bool
	Cluster   Cluster
	// Version is this program's.
	Version   string
	Deadlines Deadlines
	// Now is the clock. It must be set.
	Now func() time.Time
	// Log gets what happens in the background; nil: nowhere.
	Log *slog.Logger
	// Meter may be nil.
	Meter Meter
}

// Client is the connection to a provider. It connects by itself, and again. Whatever is called, the
// provider is asked first what it is, once after every connect.
type Client struct {
	opts Options
	conn *grpc.ClientConn
	rpc  providerv1.ProviderClient

	// begun counts the connections.
	begun counter

	mu sync.Mutex
	// asking is locked while Describe is under way.
	asking sync.Mutex
	// confirmed is the number of the connection over which the provider described itself.
	confirmed int64
	// first is the first description: name, class kinds and vocabulary may not change. last is
	// the last one.
	first, last *wire.Description
	// lacking are capabilities that turned out not to be there; empty again in every epoch.
	lacking map[providerv1.Capability]bool
	// epoch is done when the provider has started anew: for streams, which then begin again.
	epoch    context.Context //nolint:containedctx // it is no call's, but an event that ends many
	newEpoch context.CancelFunc
	// failed is why the provider cannot be asked now; nil: it can.
	failed error
}

// Open returns a client. The provider need not be there yet. The error says what is wrong with the
// options.
func Open(opts Options) (*Client, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Meter == nil {
		opts.Meter = noMeter{}
	}
	if opts.Deadlines == (Deadlines{}) {
		opts.Deadlines = DefaultDeadlines()
	}
	secured, err := CheckAddress(opts.Address, opts.Files, opts.Plaintext)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: opts, confirmed: -1, lacking: map[providerv1.Capability]bool{}, failed: errors.New("the provider has not answered yet")}
	c.epoch, c.newEpoch = context.WithCancel(context.Background())
	wait := backoff.Config{BaseDelay: connectFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: connectMost}
	c.conn, err = grpc.NewClient(opts.Address, grpc.WithTransportCredentials(secured), grpc.WithStatsHandler(&c.begun),
		grpc.WithDisableServiceConfig(), grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: opts.Deadlines.Describe}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax)),
		grpc.WithUserAgent("dovetail/"+opts.Version), grpc.WithAuthority(opts.Files.ServerName))
	if err != nil {
		return nil, fmt.Errorf("provider address %q: %w", opts.Address, err)
	}
	c.rpc = providerv1.NewProviderClient(c.conn)
	return c, nil
}

// Raw returns the protocol itself, for tests of providers.
func (c *Client) Raw() providerv1.ProviderClient { return c.rpc }

// Close ends all calls.
func (c *Client) Close() error {
	c.newEpoch()
	return c.conn.Close()
}

// counter counts connections.
type counter struct {
	mu sync.Mutex
	n  int64
}

func (c *counter) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *counter) HandleRPC(context.Context, stats.RPCStats)                         {}

func (c *counter) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, begins := s.(*stats.ConnBegin); begins {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n++
	}
}

// Describe asks the provider what it is.
func (c *Client) Describe(ctx context.Context) (*wire.Description, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	return c.describe(ctx)
}

func (c *Client) describe(ctx context.Context) (*wire.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Deadlines.Describe)
	defer cancel()
	response, err := c.rpc.Describe(ctx, &providerv1.DescribeRequest{
		ProtocolMinor: wire.Minor, ControllerVersion: c.opts.Version,
		Cluster: c.cluster(),
	})
	c.called("Describe", err)
	if err != nil {
		return nil, c.fail(plain("Describe", err))
	}
	d, err := wire.ParseDescribe(response)
	if err != nil {
		err = fmt.Errorf("the provider's answer to Describe is not valid: %w", err)
		c.opts.Meter.Broken(RuleDescribe, err)
		return nil, c.fail(err)
	}
	return d, c.accept(d)
}

// fail notes why the provider cannot be asked.
func (c *Client) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.opts.Log.Warn("the provider cannot be asked; instances and nodes stay as they are", "address", c.opts.Address, "error", err)
	}
	c.failed = err
	c.opts.Meter.Connected(false)
	return err
}

// accept takes note of a description.
func (c *Client) accept(d *wire.Description) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil {
		c.first = d
	}
	if c.failed != nil {
		c.opts.Log.Info("connected to the provider", "address", c.opts.Address, "provider", d.Name, "provider_version", d.Version, "epoch", d.Epoch)
	}
	if c.last != nil && c.last.Epoch != d.Epoch {
		c.opts.Log.Info("the provider has started anew", "provider", d.Name, "provider_version", d.Version, "epoch", d.Epoch)
		c.opts.Meter.Epoch()
		c.newEpoch()
		c.epoch, c.newEpoch = context.WithCancel(context.Background())
		c.lacking = map[providerv1.Capability]bool{}
	}
	c.last, c.confirmed, c.failed = d, c.begun.count(), c.changed(d)
	c.opts.Meter.Connected(c.failed == nil)
	return c.failed
}

// ChangedError says that the provider is no longer what this process was set up for.
type ChangedError struct{ What string }

// Error says what has changed.
func (e *ChangedError) Error() string {
	return "the provider's " + e.What + " changed; the controller must start anew to take that up"
}

func (c *Client) changed(d *wire.Description) error {
	switch {
	case d.Name != c.first.Name:
		return &ChangedError{"name"}
	case !reflect.DeepEqual(d.ClassKinds, c.first.ClassKinds):
		return &ChangedError{"class kinds"}
	case !reflect.DeepEqual(d.Vocabulary, c.first.Vocabulary):
		return &ChangedError{"vocabulary"}
	case !reflect.DeepEqual(d.Repair, c.first.Repair):
		return &ChangedError{"repair policies"}
	case !reflect.DeepEqual(d.Conditions, c.first.Conditions):
		return &ChangedError{"conditions that are notices"}
	case d.Patience != c.first.Patience:
		return &ChangedError{"patience"}
	case d.IDPrefix != c.first.IDPrefix:
		return &ChangedError{"prefix of instance IDs"}
	case !maps.Equal(d.Capabilities, c.first.Capabilities):
		return &ChangedError{"capabilities"}
	}
	return nil
}

// ready asks for the description, if the connection is a new one.
func (c *Client) ready(ctx context.Context) error {
	if c.isCurrent() {
		return nil
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	if c.isCurrent() { // another call has asked meanwhile
		return nil
	}
	_, err := c.describe(ctx)
	return err
}

// isCurrent reports whether the provider has been described on the present connection.
func (c *Client) isCurrent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed == nil && c.confirmed == c.begun.count()
}

// Ready returns why the provider cannot be asked; nil: it can.
func (c *Client) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// can reports whether the provider has a capability.
func (c *Client) can(capability providerv1.Capability) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last != nil && c.last.Capabilities[capability] && !c.lacking[capability]
}

// lacks takes a capability away until the next epoch.
func (c *Client) lacks(capability providerv1.Capability) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lacking[capability] {
		c.opts.Log.Warn("the provider lists a capability and does not have it", "capability", capability.String())
	}
	c.lacking[capability] = true
}

// stream returns a context that also ends when the provider starts anew.
func (c *Client) stream(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(epoch, cancel)
	return ctx, func() { stop(); cancel() }
}

// epochName names the provider's present run.
func (c *Client) epochName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return ""
	}
	return c.last.Epoch
}

func (c *Client) cluster() *providerv1.Cluster {
	return &providerv1.Cluster{Name: c.opts.Cluster.Name, Uid: c.opts.Cluster.UID}
}

// called counts a call. After one that did not get through, the provider is asked anew what it is.
func (c *Client) called(method string, err error) {
	code := status.Code(err)
	c.opts.Meter.Called(method, code.String())
	if code == codes.Unavailable {
		c.mu.Lock()
		c.confirmed = -1
		c.mu.Unlock()
	}
}

// broke counts and logs an answer that was refused, and returns the error for the caller.
func (c *Client) broke(rule Rule, err error) error {
	c.opts.Meter.Broken(rule, err)
	c.opts.Log.Error("an answer of the provider was refused", "rule", string(rule), "error", err)
	return err
}

// plain returns an error of a call without gRPC's wrapping.
func plain(method string, err error) error {
	s := status.Convert(err)
	text := wire.Text(s.Message())
	switch s.Code() {
	case codes.Unavailable:
		return fmt.Errorf("%s: the provider is not there: %s", method, text)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s: the provider did not answer in time", method)
	case codes.Unimplemented:
		return fmt.Errorf("%s: the provider does not have this call: %s", method, text)
	default:
		return fmt.Errorf("%s: %s: %s", method, s.Code(), text)
	}
}

type noMeter struct{}

func (noMeter) Called(string, string) {}
func (noMeter) Broken(Rule, error)    {}
func (noMeter) Connected(bool)        {}
func (noMeter) Epoch()                {}
