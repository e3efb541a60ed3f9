package awssim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// The states of an instance.
const (
	statePending    = "pending"
	stateRunning    = "running"
	stateStopping   = "shutting-down"
	stateTerminated = "terminated"
)

// instances has the instances, from their launch to their end.
type instances struct {
	base    *base
	network *network
	images  *images
	sqs     *sqs
	pools   *pools

	byID  map[string]*instance
	spent float64 // dollars, on instances that are over
}

// instance is one instance that runs, or did.
type instance struct {
	id, spotRequest, clientToken string
	typ                          *ec2Type
	subnet                       *Subnet
	image                        *Image
	template                     *template
	capacityType                 string
	quota                        string // that its vCPUs count against
	state, reason                string
	launched, visible, ended     time.Time
	addresses                    []netip.Addr
	priceHourly                  float64 // fixed at the launch
	tags                         map[string]string
	reservation                  *Reservation
	placement                    placed
	// node is the name of its Node once it has joined; bootError why it will not.
	node, bootError string
	// boots is how often it was started.
	boots int
	// protected: termination protection is on.
	protected bool
	// interrupted is when its notice was given.
	interrupted   time.Time
	impairedSince time.Time
	maintenance   time.Time
}

// placed is where in a group an instance is.
type placed struct {
	groupID, groupName string
	partition          int
}

func (in *instance) live() bool { return in.state == statePending || in.state == stateRunning }

// enclaves is what its launch template says of Nitro enclaves.
func (in *instance) enclaves() string { return in.template.data.text("EnclaveOptions", "Enabled") }

// dress tags a new instance as its fleet says.
func (in *instance) dress(tags map[string]string, fleet, clientToken string) {
	maps.Copy(in.tags, tags)
	in.tags["aws:ec2:fleet-id"] = fleet
	in.clientToken = clientToken
}

// lifecycle is as DescribeInstances has it: empty for on demand.
func (in *instance) lifecycle() string {
	switch {
	case in.capacityType == capacitySpot:
		return capacitySpot
	case in.reservation != nil && in.reservation.Type == capacityBlock:
		return capacityBlock
	case in.reservation != nil && in.reservation.Interruptible:
		return "interruptible-capacity-reservation"
	default:
		return ""
	}
}

// bill is what an instance has cost in dollars, by the second.
func (in *instance) bill(now time.Time) float64 {
	return in.priceHourly * now.Sub(in.launched).Hours()
}

// name is an instance's private DNS name, and so its Node's.
func (in *instance) name(region string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return fmt.Sprintf("ip-%s.%s", strings.ReplaceAll(in.addresses[0].String(), ".", "-"), domain)
}

func (s *instances) newInstance(o *launchOption, r *Reservation, nics int, now time.Time) *instance {
	in := &instance{
		id: s.base.id("i"), typ: o.typ, subnet: o.subnet, image: s.images.byID[o.imageID], template: o.template,
		capacityType: o.capacityType, priceHourly: o.price, state: statePending, launched: now, visible: s.base.visible(now), reservation: r,
		tags: map[string]string{"aws:ec2launchtemplate:id": o.template.id, "aws:ec2launchtemplate:version": "1"},
	}
	if o.capacityType == capacitySpot {
		in.spotRequest = s.base.id("sir")
	}
	for range nics {
		in.addresses = append(in.addresses, o.subnet.lease())
	}
	return in
}

func stateCode(state string) int {
	return map[string]int{statePending: 0, stateRunning: 16, stateStopping: 32, stateTerminated: 48}[state]
}

func stateFields(state string) fields {
	return fields{{"code", stateCode(state)}, {"name", state}}
}

// terminate begins an instance's end. What it took comes back when it is over.
func (s *instances) terminate(in *instance, reason string, now time.Time) {
	if !in.live() {
		return
	}
	in.reason = reason
	s.setState(in, stateStopping, now)
	s.base.at(now.Add(s.base.between(s.base.opts.MinEnd, s.base.opts.MaxEnd)), func(now time.Time) {
		s.setState(in, stateTerminated, now)
		in.ended = now
		s.leave(in)
		s.giveBack(in)
		s.spent += in.bill(now)
		s.base.at(now.Add(terminatedVisible), func(time.Time) { delete(s.byID, in.id) })
	})
}

func (s *instances) giveBack(in *instance) {
	s.pools.used[in.quota] -= in.typ.vcpus
	for _, a := range in.addresses {
		delete(in.subnet.used, a)
	}
	k := poolKey{in.capacityType, in.typ.name, in.subnet.Zone}
	if in.reservation != nil {
		in.reservation.Available++
	} else if n, ok := s.pools.capacity[k]; ok && in.interrupted.IsZero() {
		// A pool from which instances are taken back has no room for them.
		s.pools.capacity[k] = n + 1
	}
}

// lose ends instances that nobody asked to end: one by one, or with their zone.
func (s *instances) lose(f *Fault, in *instance, now time.Time) {
	reason := "Client.UserInitiatedShutdown"
	if f.Kind == FaultZone {
		reason = "Server.InternalError"
	}
	s.terminate(in, reason, now)
}

// plan says when the instance runs and when its Node joins.
func (s *instances) plan(in *instance, now time.Time) {
	in.quota = s.pools.quotaOf(in.typ, in.capacityType)
	s.pools.used[in.quota] += in.typ.vcpus
	boot := s.base.between(s.base.opts.MinBoot, s.base.opts.MaxBoot)
	s.base.at(now.Add(min(boot/2, s.base.between(2*time.Second, 8*time.Second))), func(now time.Time) {
		if in.state == statePending {
			s.setState(in, stateRunning, now)
		}
	})
	s.boot(in, now.Add(boot))
}

// boot starts the instance, again if it was started before. Its kubelet registers when it is up.
func (s *instances) boot(in *instance, up time.Time) {
	in.boots++
	nth := in.boots
	s.base.at(up, func(now time.Time) {
		if in.live() && in.boots == nth {
			s.join(in, now)
		}
	})
}

// reboot restarts the instance. It runs all the while, as far as EC2 says; its Node is still there
// and does not know of it before the kubelet registers again.
func (s *instances) reboot(in *instance, now time.Time) {
	if in.live() {
		s.boot(in, now.Add(s.base.between(s.base.opts.MinBoot, s.base.opts.MaxBoot)))
	}
}

// bootID is what the kernel calls this boot, a UUID.
func (in *instance) bootID() string {
	h := hashHex(fmt.Appendf(nil, "%s %d", in.id, in.boots))
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[12:15], h[15:18], h[18:30])
}

// setState moves an instance on and sends a message to the queue.
func (s *instances) setState(in *instance, state string, now time.Time) {
	in.state = state
	s.sqs.notify("aws.ec2", "EC2 Instance State-change Notification", in.id, map[string]any{"instance-id": in.id, "state": state}, now)
}

// unseen reports whether an answer leaves an instance out because it is new.
func (s *instances) unseen(in *instance, now time.Time) bool {
	return in.visible.After(now) && (!s.base.opts.Beliefs.Flickers || s.base.rng.IntN(2) == 0)
}

// named returns the instances that a request names, or all that are seen.
func (s *instances) named(c *call, ids []string) ([]*instance, error) {
	if len(ids) == 0 {
		return slices.DeleteFunc(slices.Collect(maps.Values(s.byID)), func(in *instance) bool { return s.unseen(in, c.now) }), nil
	}
	var out []*instance
	for _, id := range ids {
		if len(id) < 3 || id[:2] != "i-" {
			return nil, fail("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
		}
		in := s.byID[id]
		if in == nil || s.unseen(in, c.now) {
			return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		out = append(out, in)
	}
	return out, nil
}
