package aws

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

const (
	// marksAtOnce is how many NodeClaims are marked in parallel, and markTries how often one
	// is that others write to meanwhile.
	marksAtOnce = 20
	markTries   = 5

	// batchMost is how many requests one fleet is for.
	batchMost   = 50
	batchPrefix = "launch-"
	// batchNameMost bounds the name of a batch in a mark: it becomes the value of a filter.
	batchNameMost = 64
)

var (
	// errElsewhere says that another process is launching for the same claims.
	errElsewhere = errors.New("another process is launching for the same claims")
	// errLeft says that a claim is gone, or is to go.
	errLeft = errors.New("the NodeClaim is gone")
)

// mark is the annotation on a NodeClaim that says in which batch an instance was last requested
// for it. Nothing is launched because of it: it only says what to look for before launching.
type mark struct {
	member
	batch  string // the value of the tag on its instances
	at, of int    // the claim's place in the batch, and how many places that has
	begun  time.Time
}

func (m *mark) String() string {
	return fmt.Sprintf("%s %d/%d %s", m.batch, m.at, m.of, m.begun.UTC().Format(time.RFC3339))
}

// parseMark reads a mark that anybody may have written; false: it is none of ours.
func parseMark(text string) (mark, bool) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return mark{}, false
	}
	at, of, _ := strings.Cut(fields[1], "/")
	var m mark
	var err [3]error
	m.batch = fields[0]
	m.at, err[0] = strconv.Atoi(at)
	m.of, err[1] = strconv.Atoi(of)
	m.begun, err[2] = time.Parse(time.RFC3339, fields[2])
	whole := strings.HasPrefix(m.batch, batchPrefix) && len(m.batch) <= batchNameMost && 0 <= m.at && m.at < m.of && m.of <= batchMost
	return m, whole && errors.Join(err[:]...) == nil
}

// claims are the NodeClaims of the cluster, which carry the marks.
type claims struct {
	client client.Reader // may be behind
	writer client.Writer
	reader client.Reader // not behind
}

// note writes a mark on its claim, in whose stead nobody else has written since it was read.
// A mark of another batch that holds is errElsewhere; a claim that is gone, or is to go, errLeft.
func (c claims) note(ctx context.Context, m mark, holds func(mark) bool) error {
	var err error
	from, isCache := c.client, true
	for range markTries {
		claim := &karpenterv1.NodeClaim{}
		err = from.Get(ctx, client.ObjectKey{Name: m.Claim}, claim)
		if isCache && (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) { // the cache may not have it yet
			from, isCache = c.reader, false
			continue
		}
		if err != nil {
			break
		}
		if string(claim.UID) != m.Token || claim.DeletionTimestamp != nil {
			return errLeft
		}
		had, marked := parseMark(claim.Annotations[awsv1.AnnotationLaunch])
		if had.member = m.member; marked && holds(had) {
			return fmt.Errorf("%w: NodeClaim %s is marked with %s", errElsewhere, m.Claim, had.batch)
		}
		before := claim.DeepCopy()
		if claim.Annotations == nil {
			claim.Annotations = map[string]string{}
		}
		claim.Annotations[awsv1.AnnotationLaunch] = m.String()
		err = c.writer.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			break
		}
		from, isCache = c.reader, false
	}
	if apierrors.IsNotFound(err) {
		return errLeft
	}
	if err != nil {
		return fmt.Errorf("mark NodeClaim %s: %w", m.Claim, err)
	}
	return nil
}

// marks returns the marks on claims that have no instance yet, and the ids of the instances
// that the others have.
func (c claims) marks(ctx context.Context) (marks []mark, adopted map[string]bool, err error) {
	var list karpenterv1.NodeClaimList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // only read
		return nil, nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	adopted = map[string]bool{}
	for i := range list.Items {
		claim := &list.Items[i]
		if id, ours := instanceID(claim.Status.ProviderID); ours {
			adopted[id] = true
			continue
		}
		if m, ok := parseMark(claim.Annotations[awsv1.AnnotationLaunch]); ok {
			m.member = member{string(claim.UID), claim.Name}
			marks = append(marks, m)
		}
	}
	return marks, adopted, nil
}

// isWanted reports whether the claim of a request is there and is to stay. If that cannot be
// found out, it does.
func (c claims) isWanted(ctx context.Context, m member) bool {
	claim := &karpenterv1.NodeClaim{}
	err := c.client.Get(ctx, client.ObjectKey{Name: m.Claim}, claim)
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return string(claim.UID) == m.Token && claim.DeletionTimestamp == nil
}
