// Package cloud is the seam between Dovetail and the clouds. A provider gets values and
// returns values: it never sees a NodePool or NodeClaim, ranks nothing, remembers no shortage.
// It only knows its cloud.
//
// Abilities that not every cloud has are small interfaces found by type assertion.
// internal/cloud/cloudtest is the suite that every provider passes.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// ErrNotFound is returned for an instance that the cloud does not have (any more).
var ErrNotFound = errors.New("instance not found")

// Provider is one cloud.
type Provider interface {
	// Name is used in metrics and logs.
	Name() string
	// ClassKinds are the node class kinds that the provider answers for, the default first.
	ClassKinds() []schema.GroupVersionKind
	// Vocabulary returns the labels that the provider gives meaning to. It never changes.
	Vocabulary() Vocabulary
	// Types returns every instance type that the class can launch, unavailable offerings
	// included. The caller does not change the result. ErrNotFound: there is no such class.
	Types(ctx context.Context, class ClassRef) ([]*catalog.Type, error)
	// Launch starts one instance for each request and answers each in the same order,
	// without waiting for boots. A request whose token was seen before is answered with
	// the first instance, so every request is safe to repeat, after a crash too. An answer may be
	// that the cloud has accepted the launch: see accepted.go for what may come of that.
	Launch(ctx context.Context, requests []LaunchRequest) []LaunchResult
	// Terminate asks for the end of an instance and is safe to repeat. Nil: on its way, ask
	// again later. ErrNotFound: gone for good. An instance that was Provisional is known by that ID, too, for
	// Terminate and for Get.
	Terminate(ctx context.Context, instanceID string) error
	// Get returns one instance. ErrNotFound: gone, or going.
	Get(ctx context.Context, instanceID string) (Instance, error)
	// List returns every instance that belongs to this cluster, those that are terminating too.
	List(ctx context.Context) ([]Instance, error)
}

// Owner is a provider whose instance IDs have a form that those of other providers do not have. Where a process has
// several providers, calls about its instances go to it alone.
type Owner interface {
	// Owns reports whether an ID has that form. The cloud is not asked.
	Owns(instanceID string) bool
}

// DeviceKnower is a provider that knows which devices instance types have.
type DeviceKnower interface {
	// Devices returns the ResourceSlices that drivers will publish on a node of an instance type,
	// without what is of one node; none: it has no devices, or they are not known.
	Devices(class ClassRef, instanceType string) []resourceapi.ResourceSliceSpec
}

// DeviceAttacher is a DeviceKnower whose instances have some devices only if they are launched for
// pods that claim them.
type DeviceAttacher interface {
	// DriversOnRequest returns the drivers of these devices. Nodes of a type do not show which of
	// them another node of it will have.
	DriversOnRequest() []string
}

// TypesChanger is a provider that knows when the types of a class have changed. Without that they are asked for
// every minute.
type TypesChanger interface {
	// OnTypesChanged is called once, before anything is asked. The provider calls changed, which returns at
	// once, whenever the answer of Types for a class may be another than before, whatever its Kubelet.
	OnTypesChanged(changed func(class ClassRef))
}

// Drifter is a provider that can find out whether an instance is still what its class would
// launch now: another image or another network is drift.
type Drifter interface {
	// Drifted returns in what way the instance differs, as a condition's reason
	// ("ImageDrifted"); empty: it does not. ErrNotFound: there is no such instance or class.
	Drifted(ctx context.Context, class ClassRef, instanceID string) (reason string, err error)
}

// DriftBatcher is a Drifter that can be asked about many instances of a class at once.
type DriftBatcher interface {
	Drifter
	// DriftBatch returns how many instances of a class may be asked about at once; below 2: they are asked about one
	// by one. It answers from memory.
	DriftBatch(class ClassRef) int
	// DriftedOf answers for some instances of a class what Drifted answers for each. It is not known of an instance
	// that is not in the answer. An error: it is not known of any.
	DriftedOf(ctx context.Context, class ClassRef, instanceIDs []string) (map[string]Drift, error)
}

// Drift is what Drifted answers for one instance.
type Drift struct {
	Reason string
	Err    error
}

// Watcher is a provider that gets notices of what will happen to its instances.
type Watcher interface {
	// Watch calls report for every notice until the context ends. It repeats a notice later if
	// report returns an error; the same notice may be reported twice in any case.
	Watch(ctx context.Context, report func(context.Context, Notice) error)
}

// NoticeKind is what a notice is about.
type NoticeKind string

// The kinds of notice.
const (
	// Reclaimed: the cloud takes a spot instance back at Notice.Ends.
	Reclaimed NoticeKind = "spot_interrupted"
	// ReservationReclaimed: the owner of a reservation takes it back at Notice.Ends.
	ReservationReclaimed NoticeKind = "capacity_reservation_interrupted"
	// ReservationEnding: a reservation ends, and its instances are taken back at Notice.Ends.
	ReservationEnding NoticeKind = "capacity_reservation_expired"
	// RebalanceRecommended: the instance is likely to be taken back.
	RebalanceRecommended NoticeKind = "rebalance_recommendation"
	// MaintenanceScheduled: the instance is stopped, moved or restarted at Notice.Ends.
	MaintenanceScheduled NoticeKind = "scheduled_change"
	// Stopped and Ended: the instance is no longer running, or on its way out.
	Stopped NoticeKind = "instance_stopped"
	Ended   NoticeKind = "instance_terminated"
	// InstanceBroken and SystemBroken: the instance, or what it runs on, fails the cloud's checks.
	InstanceBroken NoticeKind = "instance_status"
	SystemBroken   NoticeKind = "system_status"
	// ZoneShifted and ZoneRestored: a zone is given up until Notice.Ends, and is back. They are
	// about no instance.
	ZoneShifted  NoticeKind = "zone_shifted"
	ZoneRestored NoticeKind = "zone_restored"
	// LaunchFailed: the launch of the instance had been accepted, and has failed as Notice.Failure says.
	LaunchFailed NoticeKind = "launch_failed"
	// LaunchChanged: what Get says of an instance has changed whose launch had been accepted.
	LaunchChanged NoticeKind = "launch_changed"
)

// Notice is what a cloud says will become of an instance, or has become of it.
type Notice struct {
	Kind NoticeKind
	// InstanceID is the Instance's ID.
	InstanceID string
	// Zone is what ZoneShifted and ZoneRestored are about.
	Zone string
	// Ends is when the instance is gone; zero: that is not said, or has happened.
	Ends time.Time
	// Failure is that of LaunchFailed.
	Failure *Failure
}

// Vocabulary is the labels a provider gives meaning to.
type Vocabulary struct {
	// WellKnown keys are decided by instance types or offerings: a pool that does not
	// mention one allows any value of it.
	WellKnown []string
	// RestrictedDomains are label domains that users may not require or set.
	RestrictedDomains []string
	// ReservationKey names the reservation that an instance takes up; empty: there are none.
	ReservationKey string
	// ReservationKeys are all labels that only instances in a reservation have.
	ReservationKeys []string
}

// ClassRef names a node class object.
type ClassRef struct {
	Group, Kind, Name string
	// Kubelet is the kubelet's configuration, as JSON, that a NodePool or a NodeClaim of v1beta1 has in
	// place of that of the class; empty: the class's own.
	Kubelet string
}

// Object returns the reference to the class alone.
func (c ClassRef) Object() ClassRef {
	c.Kubelet = ""
	return c
}

// String returns kind/name.
func (c ClassRef) String() string { return c.Kind + "/" + c.Name }

// LaunchRequest asks for one instance.
type LaunchRequest struct {
	// Token identifies the request for good; it is the claim's UID.
	Token string
	// Claim is the claim's name: for names and tags of what is made.
	Claim string
	Class ClassRef
	// Choices are the offerings that may be launched, best first. Never empty.
	Choices []catalog.Choice
	// Repriced: a NodeOverlay set prices of the Choices, so that the cloud's own prices do not
	// say which is best.
	Repriced bool
	// Requirements is all the instance must be; single-valued ones become node labels.
	Requirements label.Requirements
	Requests     quantity.List
	// Labels and Annotations the node shall carry when it joins.
	Labels, Annotations map[string]string
	// Taints the node shall carry when it joins.
	Taints []cluster.Taint
}

// LaunchResult is the answer to one request: an instance, or Err.
type LaunchResult struct {
	Instance Instance
	// Short are offerings that had no capacity, whether or not the request got an instance. Keep
	// is for how long to avoid them; 0: the usual time. A *Failure has its own.
	Short []catalog.Place
	Keep  time.Duration
	// Err is a *Failure if the cloud refused. Any other error means that it is not known
	// whether an instance was launched: repeat the request with the same token.
	Err error
}

// Instance is one instance as the cloud describes it.
type Instance struct {
	// ID is the providerID of its Node, unless it is Provisional.
	ID string
	// Provisional: the launch was accepted, and the instance has no providerID yet. ID is what the
	// provider calls it until then.
	Provisional bool
	// Failed says why the launch, which was accepted, came to nothing. The instance will not become a
	// Node. It is there for Get and List until it is terminated. Nil: it has not failed.
	Failed *Failure
	// Token is that of the request it was made for; empty if unknown.
	Token string
	// Claim is the claim it was made for; empty if unknown.
	Claim   string
	ImageID string
	// Labels the Node will carry because of what it is: type, zone, capacity type, …
	Labels      map[string]string
	Annotations map[string]string
	// Capacity and Allocatable are what the Node is expected to report.
	Capacity, Allocatable quantity.List
	Created               time.Time
	Terminating           bool
}

// FailureKind says why a launch failed.
type FailureKind string

// The kinds of failure.
const (
	// NoCapacity: none of the offerings has capacity now.
	NoCapacity FailureKind = "InsufficientCapacity"
	// ClassNotReady: the node class cannot be used, yet.
	ClassNotReady FailureKind = "NodeClassNotReady"
	// Rejected: the cloud refused the request itself.
	Rejected FailureKind = "LaunchFailed"
)

// Failure is a cloud's definite refusal: nothing was launched, or nothing came of what was.
type Failure struct {
	Kind FailureKind
	// Reason is a condition reason; empty: Kind.
	Reason  string
	Message string
	// Short are the offerings that had no capacity; empty, of kind NoCapacity: all choices of
	// the request, or, of an instance that Failed, the offering that its labels say. Keep is for how long to avoid them; 0: the usual time.
	Short []catalog.Place
	Keep  time.Duration
}

// Error returns the kind and the message.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Kind, f.Message) }
