package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	// memoryMost bounds what is remembered; with more, all is learnt anew.
	memoryMost = 20_000
	// memoryKept is how long after the last node of a type its memory is remembered.
	memoryKept = 60 * 24 * time.Hour
	// memoryNoted is how often what is written about a type that still has nodes is renewed.
	memoryNoted = 24 * time.Hour
	// notedMost bounds what is written on one class: an object has room for 256 KiB of
	// annotations, and a type takes less than 100 bytes.
	notedMost = 500
)

// nodeMemory is how much memory nodes have for pods, by instance type: what they report, which is
// less than EC2 says, minus what they reserve beyond what is expected. The least that was ever
// seen counts. It is written on the classes, so that it is known after a restart.
type nodeMemory struct {
	client client.Client
	opts   *Options

	mu      sync.Mutex
	loaded  bool
	changed bool // since it was written down
	seen    map[memoryKey]memorySeen
}

type memoryKey struct{ Type, Images string }

type memorySeen struct {
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"` // the last time
}

// memoryNote is what is written on a class, of its images at that time.
type memoryNote struct {
	Images string                `json:"images"`
	Types  map[string]memorySeen `json:"types"`
}

// bootKey is the same for classes whose nodes boot alike: from the same images, with the same
// user data and settings of the kubelet.
func bootKey(class *awsv1.EC2NodeClass) string {
	ids := make([]string, 0, len(class.Status.AMIs))
	for _, a := range class.Status.AMIs {
		ids = append(ids, a.ID)
	}
	alike := any(ids)
	if class.Spec.UserData != nil || class.Spec.Kubelet != nil {
		alike = []any{ids, class.Spec.UserData, class.Spec.Kubelet}
	}
	text, _ := json.Marshal(alike) // what came as JSON can always be written
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// learn notes what a node of a type said it has.
func (m *nodeMemory) learn(key memoryKey, said memorySeen) {
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
func (m *nodeMemory) of(class *awsv1.EC2NodeClass, now time.Time) map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	images := bootKey(class)
	out := map[string]int64{}
	for key, said := range m.seen {
		if key.Images == images && now.Sub(said.At) < memoryKept {
			out[key.Type] = said.Bytes
		}
	}
	return out
}

// merge adds what was written down, but for what is too old.
func (m *nodeMemory) merge(note memoryNote, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[memoryKey]memorySeen{}
	}
	for name, said := range note.Types {
		key := memoryKey{name, note.Images}
		if had, ok := m.seen[key]; ok {
			said.Bytes = min(said.Bytes, had.Bytes)
			if had.At.After(said.At) {
				said.At = had.At
			}
		}
		if said.Bytes > 0 && now.Sub(said.At) < memoryKept && len(m.seen) < memoryMost {
			m.seen[key] = said
		}
	}
}

// text returns what is known of the types that are started from some images, as it is written
// down; empty: nothing.
func (m *nodeMemory) text(images string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for key := range m.seen {
		if key.Images == images {
			names = append(names, key.Type)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.SortFunc(names, func(a, b string) int { // the last seen first
		return cmp.Or(m.seen[memoryKey{b, images}].At.Compare(m.seen[memoryKey{a, images}].At), cmp.Compare(a, b))
	})
	note := memoryNote{Images: images, Types: map[string]memorySeen{}}
	for _, name := range names[:min(len(names), notedMost)] {
		note.Types[name] = m.seen[memoryKey{name, images}]
	}
	text, _ := json.Marshal(note) // numbers, words and times can always be written
	return string(text)
}

// ready reads what was written down, once. What cannot be read is learnt from nodes.
func (m *nodeMemory) ready(ctx context.Context) {
	m.mu.Lock()
	loaded := m.loaded
	m.mu.Unlock()
	if loaded {
		return
	}
	var classes awsv1.EC2NodeClassList
	if err := m.opts.Reader.List(ctx, &classes); err != nil {
		if ctx.Err() == nil {
			m.opts.Log.Warn("what nodes said of their memory could not be read, will try again", "error", err)
		}
		return
	}
	for i := range classes.Items {
		m.mergeClass(&classes.Items[i])
	}
	m.mu.Lock()
	m.loaded = true
	m.mu.Unlock()
}

// mergeClass adds what is written on a class to what is known.
func (m *nodeMemory) mergeClass(class *awsv1.EC2NodeClass) {
	text, ok := class.Annotations[awsv1.AnnotationMemory]
	if !ok {
		return
	}
	var note memoryNote
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		m.opts.Log.Error("what nodes said of their memory is damaged and is learnt anew", "class", class.Name, "annotation", awsv1.AnnotationMemory, "error", err)
		return
	}
	m.merge(note, m.opts.Now())
}

// save writes on the classes what nodes said, if they said something new.
func (m *nodeMemory) save(ctx context.Context) error {
	m.mu.Lock()
	changed := m.changed
	m.changed = false
	m.mu.Unlock()
	if !changed {
		return nil
	}
	err := m.write(ctx)
	if err != nil {
		m.mu.Lock()
		m.changed = true
		m.mu.Unlock()
	}
	return err
}

func (m *nodeMemory) write(ctx context.Context) error {
	var classes awsv1.EC2NodeClassList
	if err := m.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list node classes: %w", err)
	}
	var errs []error
	for i := range classes.Items {
		class := &classes.Items[i]
		m.mergeClass(class)
		text := m.text(bootKey(class))
		if text == "" || text == class.Annotations[awsv1.AnnotationMemory] {
			continue
		}
		before := class.DeepCopy()
		if class.Annotations == nil {
			class.Annotations = map[string]string{}
		}
		class.Annotations[awsv1.AnnotationMemory] = text
		if err := m.client.Patch(ctx, class, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("write memory of nodes on node class %s: %w", class.Name, err))
		}
	}
	return errors.Join(errs...)
}
