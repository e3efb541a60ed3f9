package aws

import (
	"context"
	"sync"
	"time"
)

const (
	// cleanUpEvery is how often old records are dropped and the memory of nodes is read.
	cleanUpEvery = time.Minute
	// tagEvery is how often the instances that lack their own tags get them.
	tagEvery = 15 * time.Second
	// profilesEvery is how often instance profiles that no class needs are deleted.
	profilesEvery = 30 * time.Minute
)

// Start performs what has to be done besides answering, until the context ends.
func (p *Provider) Start(ctx context.Context) error {
	chores := []func(context.Context) time.Duration{p.market.refresh, p.market.onDemand.refresh, p.market.spot.refresh}
	if p.opts.ReadOnly {
		chores = append(chores, p.every(cleanUpEvery, "read what memory nodes have", p.memoryReader.read))
	} else {
		chores = append(chores,
			p.every(cleanUpEvery, "clean up", p.cleanUp),
			p.every(tagEvery, "tag instances", p.instances.tagNew),
			p.every(profilesEvery, "delete instance profiles", p.sweepProfiles),
		)
	}
	var group sync.WaitGroup
	for _, chore := range chores {
		group.Go(func() { repeat(ctx, chore) })
	}
	group.Wait()
	return nil
}

// repeat performs a chore whenever it asks for it, until the context ends.
func repeat(ctx context.Context, chore func(context.Context) time.Duration) {
	for ctx.Err() == nil {
		timer := time.NewTimer(chore(ctx))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// every returns a chore that is repeated after each period and logs its errors.
func (p *Provider) every(period time.Duration, what string, do func(context.Context) error) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			p.opts.Log.Error("a chore failed, will try again", "chore", what, "error", err)
		}
		return period
	}
}

// sweepProfiles deletes the instance profiles that nothing needs.
func (p *Provider) sweepProfiles(ctx context.Context) error {
	return p.profiles.sweep(ctx, func(ctx context.Context) (map[string]ec2Instance, error) { return p.instances.describe(ctx) })
}

// cleanUp drops old records and reads what memory nodes have.
func (p *Provider) cleanUp(ctx context.Context) error {
	p.instances.forgetOld()
	p.ledger.forgetOld()
	if err := p.memoryReader.read(ctx); err != nil {
		return err
	}
	if err := p.memory.save(ctx); err != nil {
		return err
	}
	if err := p.templates.hydrate(ctx); err != nil {
		return err
	}
	return p.templates.sweep(ctx)
}
