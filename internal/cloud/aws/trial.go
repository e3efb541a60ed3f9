package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	// triedKept is how long the outcome of a dry run is valid.
	triedKept = 30 * time.Minute
)

// Reasons that dry runs give for ValidationSucceeded.
const (
	reasonTemplateDenied  = "CreateLaunchTemplateAuthCheckFailed"
	reasonFleetDenied     = "CreateFleetAuthCheckFailed"
	reasonInstancesDenied = "RunInstancesAuthCheckFailed"
	reasonUserDataSize    = "UserDataSizeLimitExceeded"
	reasonProfileMissing  = "InstanceProfileNotFound"
)

// trial holds the outcomes of the dry runs of a class. It needs no lock: the reconciler works on
// a class once at a time.
type trial struct {
	// key is that of the class as it was tried out.
	key string
	// outcome is that of the last conclusive dry run, valid until fresh and kept until there is
	// another; nil: there was none.
	outcome *finding
	fresh   time.Time
	// failures is how many dry runs in a row were inconclusive; why is what the last one
	// said, and next is when the next one is due.
	failures int
	why      string
	next     time.Time
}

// trials has those of the classes that exist.
type trials struct {
	mu      sync.Mutex
	byClass map[string]*trial
}

// of returns the trial of a class: a new one if the class is not as it was.
func (t *trials) of(class, key string) *trial {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byClass == nil {
		t.byClass = map[string]*trial{}
	}
	if had := t.byClass[class]; had != nil && had.key == key {
		return had
	}
	t.byClass[class] = &trial{key: key}
	return t.byClass[class]
}

// drop forgets a class.
func (t *trials) drop(class string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byClass, class)
}

// keptOf returns for how long the outcome of a dry run is valid: shorter if the instance profile
// is missing, which ends as soon as somebody makes it.
func keptOf(f *finding) time.Duration {
	if f.reason == reasonProfileMissing {
		return f.again
	}
	return triedKept
}

// triedKey is the same while a dry run would have the same outcome. Annotations are part
// of it, so that a person can ask for another.
func triedKey(c *awsv1.EC2NodeClass) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode([]any{c.UID, c.Name, c.Spec, c.Annotations, statusUsed(&c.Status)}); err != nil {
		return "", fmt.Errorf("node class %s: %w", c.Name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
