package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

const (
	// tidyEvery is how often what is over is forgotten, and what nodes say of their memory
	// is read.
	tidyEvery = time.Minute
	// tagEvery is how often the instances that lack their own tags get them.
	tagEvery = 15 * time.Second
	// profilesEvery is how often instance profiles that no class needs are deleted.
	profilesEvery = 30 * time.Minute
)

// Start performs what has to be done besides answering, until the context ends.
func (p *Provider) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for _, chore := range []func(context.Context) time.Duration{
		p.stall.refresh,
		p.every(tidyEvery, "tidy up", p.tidyAll),
		p.every(tagEvery, "tag instances", p.tagInstances),
		p.every(profilesEvery, "delete instance profiles", p.sweepProfiles),
	} {
		group.Go(func() {
			for ctx.Err() == nil {
				timer := time.NewTimer(chore(ctx))
				select {
				case <-ctx.Done():
				case <-timer.C:
				}
				timer.Stop()
			}
		})
	}
	group.Wait()
	return nil
}

// every returns a chore that says what went wrong and is repeated all the same.
func (p *Provider) every(period time.Duration, what string, do func(context.Context) error) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			p.opts.Log.Error("a chore failed, will try again", "chore", what, "error", err)
		}
		return period
	}
}

func (p *Provider) tidyAll(ctx context.Context) error {
	p.tidy()
	p.ledger.tidy(ctx)
	if err := p.learnMemory(ctx); err != nil {
		return err
	}
	if err := p.noteMemory(ctx); err != nil {
		return err
	}
	if err := p.templates.hydrate(ctx); err != nil {
		return err
	}
	return p.templates.sweep(ctx)
}

// learnMemory reads what memory the nodes of each class say they have.
func (p *Provider) learnMemory(ctx context.Context) error {
	var classes awsv1.EC2NodeClassList
	if err := p.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list node classes: %w", err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		var nodes corev1.NodeList
		err := p.client.List(ctx, &nodes, client.MatchingLabels{awsv1.LabelNodeClass: class.Name, karpenterv1.NodeRegisteredLabelKey: karpenterv1.LabelValueTrue})
		if err != nil {
			return fmt.Errorf("list nodes of node class %s: %w", class.Name, err)
		}
		for j := range nodes.Items {
			p.learnMemoryOf(class, &nodes.Items[j])
		}
	}
	return nil
}

// learnMemoryOf reads the memory of a node that runs an image the class still uses.
func (p *Provider) learnMemoryOf(class *awsv1.EC2NodeClass, node *corev1.Node) {
	id, _ := instanceID(node.Spec.ProviderID)
	p.mu.Lock()
	k, ok := p.known[id]
	p.mu.Unlock()
	current := ok && slices.ContainsFunc(class.Status.AMIs, func(a awsv1.AMI) bool { return a.ID == k.machine.ImageID })
	if bytes := node.Status.Capacity.Memory().Value(); current && bytes > 0 {
		p.memory.learn(memoryKey{k.machine.Type, imagesKey(class)}, memorySeen{bytes, p.opts.Now()})
	}
}

// tagInstances gives each instance that was launched lately its own tags: its claim, which
// those that were launched together lack, and its name.
func (p *Provider) tagInstances(ctx context.Context) error {
	launched := p.ledger.machines()
	p.mu.Lock()
	maps.DeleteFunc(launched, func(id string, _ machine) bool {
		_, ended := p.ended[id]
		return ended || p.tagged[id]
	})
	p.mu.Unlock()
	ids := slices.Sorted(maps.Keys(launched))
	for some := range slices.Chunk(ids, gatherMost) {
		seen, err := p.look(ctx, some)
		if err != nil {
			return err
		}
		for _, id := range some {
			m, ok := seen[id]
			if !ok || m.Going || p.isAway(m.Zone) { // not shown yet, or not sure: the next time
				continue
			}
			if err := p.tag(ctx, &m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Provider) tag(ctx context.Context, m *machine) error {
	tags := map[string]string{awsv1.TagNodeClaim: m.Claim}
	if m.Tags[awsv1.TagName] == "" && m.DNSName != "" {
		tags[awsv1.TagName] = m.DNSName
	}
	_, err := p.clients.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.ID}, Tags: tagList(tags)})
	if err != nil && !isNotFound(errorCode(err)) {
		return fmt.Errorf("tag instance %s: %w", m.ID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tagged[m.ID] = err == nil
	return nil
}

// sweepProfiles deletes the instance profiles of this cluster that neither a class nor a
// claim names. Those of classes that still are stay: a claim may be about to use them.
func (p *Provider) sweepProfiles(ctx context.Context) error {
	if p.opts.IsolatedVPC {
		return nil
	}
	var classes awsv1.EC2NodeClassList
	if err := p.opts.Reader.List(ctx, &classes); err != nil {
		return fmt.Errorf("list node classes: %w", err)
	}
	prefix := fmt.Sprintf("/karpenter/%s/%s/", p.opts.Config.Region, p.opts.ClusterName)
	return p.deleteProfiles(ctx, prefix, func(path string) bool {
		return slices.ContainsFunc(classes.Items, func(c awsv1.EC2NodeClass) bool { return strings.HasPrefix(path, p.profilePath(&c)) })
	})
}

// dropLatest forgets the images of an alias for latest, so that they are looked up again.
func (p *Provider) dropLatest(name, kubernetes string) {
	for _, parameter := range aliasParameters(name, latest, kubernetes) {
		p.aliases.drop(parameter.path)
	}
}
