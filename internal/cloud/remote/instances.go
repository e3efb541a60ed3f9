package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wire"
)

// Terminate asks for the end of an instance.
func (p *Provider) Terminate(ctx context.Context, instanceID string) error {
	gone := fmt.Errorf("terminate %q: %w", instanceID, cloud.ErrNotFound)
	if instanceID == "" {
		return gone
	}
	if err := p.may(); err != nil {
		return err
	}
	if err := p.client.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.opts.Deadlines.Terminate)
	defer cancel()
	response, err := p.client.rpc.Terminate(ctx, &providerv1.TerminateRequest{Ids: []string{instanceID}})
	p.client.called("Terminate", err)
	if status.Code(err) == codes.NotFound {
		return gone
	}
	if err != nil {
		return plain("Terminate", err)
	}
	end, ok := response.GetEnds()[instanceID]
	switch {
	case !ok:
		return fmt.Errorf("Terminate: the answer does not say what became of %s", instanceID)
	case end.GetGone():
		return gone
	case end.GetFailure() != nil:
		return fmt.Errorf("Terminate: %w", wire.ParseFailure(end.GetFailure()))
	}
	return nil
}

// Get returns one instance.
func (p *Provider) Get(ctx context.Context, instanceID string) (cloud.Instance, error) {
	gone := fmt.Errorf("get %q: %w", instanceID, cloud.ErrNotFound)
	if instanceID == "" {
		return cloud.Instance{}, gone
	}
	if err := p.client.ready(ctx); err != nil {
		return cloud.Instance{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.opts.Deadlines.Get)
	defer cancel()
	response, err := p.client.rpc.Get(ctx, &providerv1.GetRequest{Id: instanceID})
	p.client.called("Get", err)
	if status.Code(err) == codes.NotFound {
		return cloud.Instance{}, gone
	}
	if err != nil {
		return cloud.Instance{}, plain("Get", err)
	}
	instance, err := p.parse(response.GetInstance())
	if err == nil && instance.ID != instanceID && response.GetInstance().GetProvisionalId() != instanceID {
		err = fmt.Errorf("the answer is about instance %s", instance.ID)
	}
	if err != nil {
		return cloud.Instance{}, p.client.broke(RuleInstance, fmt.Errorf("Get %s: %w", instanceID, err))
	}
	if err := p.isAccepted(instanceID, instance.Token); err != nil {
		return cloud.Instance{}, p.client.broke(RuleAccepted, fmt.Errorf("Get %s: %w", instanceID, err))
	}
	if instance.Terminating {
		return cloud.Instance{}, gone
	}
	return instance, nil
}

// parse reads an instance of ours.
func (p *Provider) parse(message *providerv1.Instance) (cloud.Instance, error) {
	instance, err := wire.ParseInstance(message)
	if err == nil {
		err = p.formed(instance.ID)
	}
	if err == nil {
		err = p.decided(&instance, message)
	}
	return instance, err
}

// decided checks what an instance says of a launch that was accepted. A failure that is no definite one says nothing.
func (p *Provider) decided(instance *cloud.Instance, message *providerv1.Instance) error {
	accepts := p.known.Capabilities[providerv1.Capability_CAPABILITY_ACCEPTED_LAUNCHES]
	if (instance.Provisional || message.GetFailed() != nil) && !accepts {
		return fmt.Errorf("instance %s: its launch is decided later, and Describe does not list CAPABILITY_ACCEPTED_LAUNCHES", instance.ID)
	}
	if message.GetFailed() != nil && instance.Failed == nil {
		_ = p.client.broke(RuleAccepted, fmt.Errorf("instance %s: failed is no definite refusal, so it counts as not failed: %w", instance.ID, wire.ParseFailure(message.GetFailed())))
	}
	return nil
}

// accept keeps the token of an instance that has no ID yet.
func (p *Provider) accept(instance *cloud.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if instance.Provisional && len(p.accepted) < acceptedMax {
		p.accepted[instance.ID] = instance.Token
	}
}

// isAccepted returns an error if a token is another one than that of the instance which has, or had, a provisional ID: its
// NodeClaim would get the instance of another one.
func (p *Provider) isAccepted(provisionalID, token string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if had, known := p.accepted[provisionalID]; known && had != token {
		return fmt.Errorf("the answer has the token %q, the launch that was accepted had %q", token, had)
	}
	return nil
}

// formed returns an error for an ID that has not the form of the provider's: calls about it would go to another one.
func (p *Provider) formed(instanceID string) error {
	if prefix := p.known.IDPrefix; !strings.HasPrefix(instanceID, prefix) {
		return fmt.Errorf("instance %s: its ID does not begin with %s, which is the instance_id_prefix of Describe", instanceID, prefix)
	}
	return nil
}

// List returns the instances of this cluster. A list that breaks off, or has one instance twice, is
// an error. Instances without a token or of another cluster are left out: nobody may end them.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) {
	if err := p.client.ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.opts.Deadlines.List)
	defer cancel()
	listed, err := p.list(ctx)
	p.client.called("List", err)
	if err != nil {
		if _, isStatus := status.FromError(err); isStatus {
			err = plain("List", err)
		}
		return nil, err
	}
	return p.ours(listed)
}

// list reads all pages.
func (p *Provider) list(ctx context.Context) ([]*providerv1.Instance, error) {
	stream, err := p.client.rpc.List(ctx, &providerv1.ListRequest{Cluster: p.client.cluster()})
	if err != nil {
		return nil, err
	}
	var all []*providerv1.Instance
	for {
		page, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, p.client.broke(RuleListCut, errors.New("List: the provider ended the list before a page marked last, so it is not whole"))
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, page.GetInstances()...); len(all) > wire.InstancesMax {
			return nil, p.client.broke(RuleListTwice, fmt.Errorf("List: more than %d instances", wire.InstancesMax))
		}
		if page.GetLast() {
			return all, nil
		}
	}
}

// ours checks a whole list and leaves out what is not of this cluster.
func (p *Provider) ours(listed []*providerv1.Instance) ([]cloud.Instance, error) {
	var out []cloud.Instance
	foreign, seen, tokens := 0, map[string]bool{}, map[string]string{}
	for _, message := range listed {
		instance, err := wire.ParseInstance(message)
		if err != nil {
			return nil, p.client.broke(RuleInstance, fmt.Errorf("List: %w", err))
		}
		if seen[instance.ID] {
			return nil, p.client.broke(RuleListTwice, fmt.Errorf("List: instance %s is there twice", instance.ID))
		}
		seen[instance.ID] = true
		if id := message.GetProvisionalId(); id != "" && !instance.Provisional {
			if seen[id] {
				return nil, p.client.broke(RuleListTwice, fmt.Errorf("List: instance %s is there as %s, too", instance.ID, id))
			}
			seen[id] = true
		}
		if instance.Token == "" || message.GetClusterUid() != p.client.opts.Cluster.UID {
			foreign++
			p.client.opts.Meter.Broken(RuleForeignInstance, fmt.Errorf("List: instance %s has no token, or is of another cluster", instance.ID))
			continue
		}
		if other, used := tokens[instance.Token]; used && !instance.Terminating {
			_ = p.client.broke(RuleTokenTwice, fmt.Errorf("List: instances %s and %s have the same token: the provider has launched one too many", other, instance.ID))
		}
		if !instance.Terminating {
			tokens[instance.Token] = instance.ID
		}
		err = p.formed(instance.ID)
		if err == nil {
			err = p.decided(&instance, message)
		}
		if err != nil {
			return nil, p.client.broke(RuleInstance, fmt.Errorf("List: %w", err))
		}
		out = append(out, instance)
	}
	if foreign > 0 {
		p.client.opts.Log.Warn("instances without a token, or of another cluster, are left alone", "instances", foreign)
	}
	p.date(out)
	return out, nil
}

// date gives instances an age that do not say when they were created: since they were first listed. It takes note of those that
// have no ID yet.
func (p *Provider) date(instances []cloud.Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]time.Time{}
	for i := range instances {
		instance := &instances[i]
		if !instance.Created.IsZero() {
			continue
		}
		at, known := p.firstSeen[instance.ID]
		if !known {
			at = p.now()
		}
		seen[instance.ID], instance.Created = at, at
	}
	p.firstSeen = seen // of what is listed now, so it cannot grow
	clear(p.accepted)
	for i := range instances {
		if instances[i].Provisional && len(p.accepted) < acceptedMax {
			p.accepted[instances[i].ID] = instances[i].Token
		}
	}
}

// rebooting is a Provider that can restart instances.
type rebooting struct{ *Provider }

// Reboot asks for a restart of an instance.
func (p rebooting) Reboot(ctx context.Context, request cloud.RebootRequest) error {
	gone := fmt.Errorf("reboot %q: %w", request.InstanceID, cloud.ErrNotFound)
	if request.InstanceID == "" {
		return gone
	}
	if err := p.may(); err != nil {
		return err
	}
	if err := p.client.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.opts.Deadlines.Reboot)
	defer cancel()
	_, err := p.client.rpc.Reboot(ctx, &providerv1.RebootRequest{Token: request.Token, InstanceId: request.InstanceID, Node: request.Node})
	p.client.called("Reboot", err)
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.NotFound:
		return gone
	case codes.FailedPrecondition, codes.Unimplemented:
		return fmt.Errorf("%w: %w", cloud.ErrRebootRefused, plain("Reboot", err))
	default:
		return plain("Reboot", err)
	}
}
