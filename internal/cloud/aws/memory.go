package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	// memoryMost bounds what is remembered; with more, all is learnt anew.
	memoryMost = 20_000
	// memoryKept is how long after the last node of a type what it said still counts.
	memoryKept = 60 * 24 * time.Hour
	// memoryNoted is how old what is written down about a node that still runs may get.
	memoryNoted = 24 * time.Hour

	memoryPrefix = "memory-"
	memoryField  = "memory"
)

// memory is what nodes said they have, which is less than EC2 says of their type. The least
// ever seen counts. It is written down, so that the first nodes after a restart are judged by it.
type memory struct {
	mu      sync.Mutex
	loaded  bool
	changed bool // since it was written down
	seen    map[memoryKey]memorySeen
}

type memoryKey struct{ Type, Images string }

type memorySeen struct {
	Bytes int64
	At    time.Time // the last time
}

// memoryNote is what is written down of one type.
type memoryNote struct {
	memoryKey
	memorySeen
}

// imagesKey is the same for classes that start machines from the same images.
func imagesKey(class *awsv1.EC2NodeClass) string {
	ids := make([]string, 0, len(class.Status.AMIs))
	for _, a := range class.Status.AMIs {
		ids = append(ids, a.ID)
	}
	text, _ := json.Marshal(ids) // strings can always be written
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// learn notes what a node of a type said it has.
func (m *memory) learn(key memoryKey, said memorySeen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil || len(m.seen) >= memoryMost {
		m.seen = map[memoryKey]memorySeen{}
	}
	had, ok := m.seen[key]
	if ok && said.Bytes >= had.Bytes && said.At.Sub(had.At) < memoryNoted {
		return
	}
	if ok {
		said.Bytes = min(said.Bytes, had.Bytes)
	}
	m.seen[key], m.changed = said, true
}

// of returns what is known of the types of a class.
func (m *memory) of(class *awsv1.EC2NodeClass, now time.Time) map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	images := imagesKey(class)
	out := map[string]int64{}
	for key, said := range m.seen {
		if key.Images == images && now.Sub(said.At) < memoryKept {
			out[key.Type] = said.Bytes
		}
	}
	return out
}

// merge adds what was written down, but for what is too old.
func (m *memory) merge(notes []memoryNote, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[memoryKey]memorySeen{}
	}
	for _, n := range notes {
		if had, ok := m.seen[n.memoryKey]; ok {
			n.Bytes = min(n.Bytes, had.Bytes)
			if had.At.After(n.At) {
				n.At = had.At
			}
		}
		if now.Sub(n.At) < memoryKept && len(m.seen) < memoryMost {
			m.seen[n.memoryKey] = n.memorySeen
		}
	}
	m.loaded = true
}

// notes returns all that is known, in order.
func (m *memory) notes() []memoryNote {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]memoryNote, 0, len(m.seen))
	for key, said := range m.seen {
		out = append(out, memoryNote{key, said})
	}
	slices.SortFunc(out, func(a, b memoryNote) int {
		return cmp.Or(cmp.Compare(a.Images, b.Images), cmp.Compare(a.Type, b.Type))
	})
	return out
}

// memoryReady reads what was written down, once. What cannot be read is learnt from nodes.
func (p *Provider) memoryReady(ctx context.Context) {
	p.memory.mu.Lock()
	loaded := p.memory.loaded
	p.memory.mu.Unlock()
	if loaded {
		return
	}
	if _, err := p.readMemory(ctx); err != nil && ctx.Err() == nil {
		p.opts.Log.Warn("what nodes said of their memory could not be read, will try again", "error", err)
	}
}

// readMemory adds what was written down to what is known, and returns where that is; without a
// version: nowhere yet.
func (p *Provider) readMemory(ctx context.Context) (*corev1.ConfigMap, error) {
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: memoryPrefix + clusterValue(p.opts.ClusterName), Namespace: p.opts.Namespace, Labels: map[string]string{clusterLabel: clusterValue(p.opts.ClusterName)},
	}}
	err := p.opts.Reader.Get(ctx, client.ObjectKeyFromObject(record), record)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read memory of nodes: %w", err)
	}
	var notes []memoryNote
	if content := record.BinaryData[memoryField]; len(content) > 0 {
		if err := read(content, &notes); err != nil {
			p.opts.Log.Error("what nodes said of their memory is damaged and is learnt anew", "record", record.Name, "error", err)
		}
	}
	p.memory.merge(notes, p.opts.Now())
	return record, nil
}

// noteMemory writes down what nodes said, if they said something new.
func (p *Provider) noteMemory(ctx context.Context) error {
	p.memory.mu.Lock()
	changed := p.memory.changed
	p.memory.changed = false
	p.memory.mu.Unlock()
	if !changed {
		return nil
	}
	err := p.writeMemory(ctx)
	if err != nil {
		p.memory.mu.Lock()
		p.memory.changed = true
		p.memory.mu.Unlock()
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil // somebody else wrote it: the next time
	}
	return err
}

func (p *Provider) writeMemory(ctx context.Context) error {
	record, err := p.readMemory(ctx)
	if err != nil {
		return err
	}
	content, err := pack(p.memory.notes())
	if err != nil {
		return err
	}
	before := record.DeepCopy()
	record.BinaryData = map[string][]byte{memoryField: content}
	if record.ResourceVersion == "" {
		err = p.client.Create(ctx, record)
	} else {
		err = p.client.Patch(ctx, record, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return fmt.Errorf("write memory of nodes: %w", err)
	}
	return nil
}
