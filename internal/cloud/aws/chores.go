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
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const (
	// tidyEvery is how often what is over is forgotten, and what nodes say of their memory
	// is read.
	tidyEvery = time.Minute
	// tagEvery is how often the instances that lack their own tags get them.
	tagEvery = 15 * time.Second
	// profilesEvery is how often instance profiles that no class needs are deleted.
	profilesEvery = 30 * time.Minute
	// profileKeptIdle is how long one stays that nothing needs: a launch may be under way.
	profileKeptIdle = time.Hour
)

// Start performs what has to be done besides answering, until the context ends.
func (p *Provider) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for _, chore := range []func(context.Context) time.Duration{
		p.stall.refresh,
		p.stall.refreshQuotes(p.stall.onDemand),
		p.stall.refreshQuotes(p.stall.spot),
		p.every(tidyEvery, "tidy up", p.tidyAll),
		p.every(tagEvery, "tag instances", p.tagInstances),
		p.every(profilesEvery, "delete instance profiles", p.sweepProfiles),
	} {
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
	p.ledger.tidy()
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
		if len(nodes.Items) == 0 {
			continue
		}
		kept := map[string]int64{}                                                                      // from pods, by type
		types, _ := p.Types(ctx, cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: class.Name}) // without them what nodes keep is learnt the next time
		for _, t := range types {
			kept[t.Name] = t.Overhead[quantity.Memory]
		}
		for j := range nodes.Items {
			p.learnMemoryOf(class, &nodes.Items[j], kept)
		}
	}
	return nil
}

// learnMemoryOf reads the memory of a node that runs an image the class still uses. Kept is what
// is expected to be kept from pods, by type: a kubelet that was told what the class says now and
// keeps more has so much less for pods.
func (p *Provider) learnMemoryOf(class *awsv1.EC2NodeClass, node *corev1.Node, kept map[string]int64) {
	id, _ := instanceID(node.Spec.ProviderID)
	p.mu.Lock()
	k, ok := p.known[id]
	p.mu.Unlock()
	current := ok && slices.ContainsFunc(class.Status.AMIs, func(a awsv1.AMI) bool { return a.ID == k.machine.ImageID })
	bytes := node.Status.Capacity.Memory().Value()
	if !current || bytes <= 0 {
		return
	}
	expected, known := kept[k.machine.Type]
	hash := class.Annotations[awsv1.AnnotationHash]
	if free := node.Status.Allocatable.Memory().Value(); known && free > 0 && hash != "" && k.machine.Tags[awsv1.AnnotationHash] == hash {
		bytes = min(bytes, quantity.Add(quantity.Add(free, hugePages(node)), expected))
	}
	p.memory.learn(memoryKey{k.machine.Type, bootKey(class)}, memorySeen{bytes, p.opts.Now()})
}

// hugePages returns the memory that a node has set apart in huge pages, which is not in what it
// has for pods otherwise.
func hugePages(node *corev1.Node) (bytes int64) {
	for name, amount := range node.Status.Capacity {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			bytes = quantity.Add(bytes, amount.Value())
		}
	}
	return bytes
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

// sweepProfiles deletes the instance profiles of this cluster that have been idle for long:
// no class has them, and no instance. A class whose role was changed has another than before.
func (p *Provider) sweepProfiles(ctx context.Context) error {
	if p.opts.IsolatedVPC {
		return nil
	}
	var classes awsv1.EC2NodeClassList
	if err := p.opts.Reader.List(ctx, &classes); err != nil {
		return fmt.Errorf("list node classes: %w", err)
	}
	instances, err := p.describe(ctx)
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for i := range classes.Items {
		needed[p.profileName(&classes.Items[i])], needed[classes.Items[i].Status.InstanceProfile] = true, true
	}
	for _, m := range instances {
		needed[m.Profile] = true
	}
	now, idle := p.opts.Now(), map[string]time.Time{}
	prefix := fmt.Sprintf("/karpenter/%s/%s/", p.opts.Config.Region, p.opts.ClusterName)
	err = p.deleteProfiles(ctx, prefix, func(name string) bool {
		if needed[name] {
			return true
		}
		since, seen := p.idleProfiles[name]
		if !seen {
			since = now
		}
		idle[name] = since
		return now.Sub(since) < profileKeptIdle
	})
	if err == nil {
		p.idleProfiles = idle
	}
	return err
}

// dropLatest forgets the images of an alias for latest, so that they are looked up again.
func (p *Provider) dropLatest(name, kubernetes string) {
	for _, parameter := range aliasParameters(name, latest, kubernetes) {
		p.aliases.drop(parameter.path)
	}
}
