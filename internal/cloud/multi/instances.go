package multi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// candidates returns the members that an instance may be of: the one whose form its ID has, or else all whose IDs
// have no form.
func (p *Provider) candidates(instanceID string) (members []cloud.Provider) {
	for i, owns := range p.owns {
		switch {
		case owns == nil:
			members = append(members, p.members[i])
		case owns(instanceID):
			return p.members[i : i+1]
		}
	}
	return members
}

// one asks the members that an instance may be of, until one knows it. ErrNotFound: none does, and all have answered.
func (p *Provider) one(instanceID string, ask func(cloud.Provider) error) error {
	var failed []error
	for _, member := range p.candidates(instanceID) {
		err := ask(member)
		if err == nil {
			return nil
		}
		if !errors.Is(err, cloud.ErrNotFound) {
			failed = append(failed, fmt.Errorf("provider %s: %w", member.Name(), err))
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return fmt.Errorf("instance %s: %w", instanceID, cloud.ErrNotFound)
}

// Terminate asks for the end of an instance.
func (p *Provider) Terminate(ctx context.Context, instanceID string) error {
	return p.one(instanceID, func(member cloud.Provider) error { return member.Terminate(ctx, instanceID) })
}

// Get returns one instance.
func (p *Provider) Get(ctx context.Context, instanceID string) (instance cloud.Instance, err error) {
	err = p.one(instanceID, func(member cloud.Provider) (err error) {
		instance, err = member.Get(ctx, instanceID)
		return err
	})
	return instance, err
}

// List returns the instances of all members. If one cannot be asked, that is an error: a list without its instances
// would say that they are gone.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) {
	var all []cloud.Instance
	for i, member := range p.members {
		listed, err := member.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", member.Name(), err)
		}
		for _, instance := range listed {
			if err := p.foreign(i, instance.ID); err != nil {
				return nil, err
			}
		}
		all = slices.Concat(all, listed)
	}
	return all, nil
}

// Reboot asks for a restart of an instance.
func (p *Provider) Reboot(ctx context.Context, request cloud.RebootRequest) error {
	refused := fmt.Errorf("instance %s: no provider of it reboots instances: %w", request.InstanceID, cloud.ErrRebootRefused)
	err := p.one(request.InstanceID, func(member cloud.Provider) error {
		if rebooter, able := member.(cloud.Rebooter); able {
			return rebooter.Reboot(ctx, request)
		}
		_, err := member.Get(ctx, request.InstanceID)
		if err == nil {
			return refused
		}
		return err
	})
	return err
}
