package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// memoryMost bounds what is remembered; with more, all is learnt anew.
const memoryMost = 20_000

// memory is what nodes said they have, which is less than EC2 says of their type. The least
// ever seen counts. It is forgotten with the process; the nodes that run tell it again.
type memory struct {
	mu   sync.Mutex
	seen map[memoryKey]int64
}

type memoryKey struct{ instanceType, images string }

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

// learn notes the bytes of memory that a node of a type has.
func (m *memory) learn(class *awsv1.EC2NodeClass, instanceType string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil || len(m.seen) >= memoryMost {
		m.seen = map[memoryKey]int64{}
	}
	key := memoryKey{instanceType, imagesKey(class)}
	if had, ok := m.seen[key]; !ok || bytes < had {
		m.seen[key] = bytes
	}
}

// of returns what is known of the types of a class.
func (m *memory) of(class *awsv1.EC2NodeClass) map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	images := imagesKey(class)
	out := map[string]int64{}
	for key, bytes := range m.seen {
		if key.images == images {
			out[key.instanceType] = bytes
		}
	}
	return out
}
