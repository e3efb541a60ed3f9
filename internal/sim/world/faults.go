package world

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// Fault is a thing that goes wrong, or that a user does.
type Fault string

// The faults. Those of writes and of the cloud strike with a probability, the others from
// time to time.
const (
	CrashBefore   Fault = "crash-before-write"
	CrashAfter    Fault = "crash-after-write"
	AnswerLost    Fault = "answer-lost"
	AnswerSlow    Fault = "answer-slow"
	Refused       Fault = "write-refused"
	Conflict      Fault = "conflict"
	Throttled     Fault = "throttled"
	LaunchRefused Fault = "launch-unanswered"
	LaunchLost    Fault = "launch-answer-lost"
	LaunchUnready Fault = "class-not-ready"
	CloudDown     Fault = "cloud-error"
	NeverJoins    Fault = "node-never-joins"
	JoinsLate     Fault = "node-joins-late"
	DetachLate    Fault = "volume-detaches-late"
	ThinksLong    Fault = "thinks-long"

	Crash       Fault = "crash"
	Stopped     Fault = "leader-stopped"
	WatchLags   Fault = "watch-lags"
	WatchRelist Fault = "watch-relists"
	Freeze      Fault = "node-not-ready"
	Reclaim     Fault = "reclaim"
	Shortage    Fault = "shortage"
	NodeDeleted Fault = "node-deleted"
	PodDeleted  Fault = "pod-deleted"
	ClaimGone   Fault = "claim-deleted"
	PoolEdited  Fault = "pool-edited"
	PoolGone    Fault = "pool-deleted"
	Drift       Fault = "image-drift"
	ClockJump   Fault = "clock-jump"
	Scale       Fault = "scale"
	Rollout     Fault = "rollout"
)

//nolint:gochecknoglobals // what there is, which nobody changes
var (
	writeFaults  = []Fault{CrashBefore, CrashAfter, AnswerLost, AnswerSlow, Refused, Conflict, Throttled}
	launchFaults = []Fault{LaunchRefused, LaunchLost, LaunchUnready, CrashAfter}
	joinFaults   = []Fault{NeverJoins, JoinsLate, CloudDown}
	volumeFaults = []Fault{DetachLate}
	thinkFaults  = []Fault{ThinksLong}
)

const (
	// namedOdds is the probability of a fault that Options.With names, namedMean the mean time between two of one that
	// strikes from time to time.
	namedOdds = 0.5
	namedMean = 3 * time.Minute
)

// slowest is how long an answer takes at most that comes, or a decision.
const slowest = 3 * time.Second

// zones are those of the cloud.
var zones = []string{"test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"} //nolint:gochecknoglobals // a constant

// manyNodes is from how many nodes on workloads are larger and instance types smaller.
const manyNodes = 50

// onWrite decides what goes wrong with a write.
func (c *chaos) onWrite() Fault { return c.draw(writeFaults) }

// onLaunch decides what goes wrong with a launch.
func (c *chaos) onLaunch() Fault { return c.draw(launchFaults) }

// onThought decides whether a decision takes long.
func (c *chaos) onThought() Fault { return c.draw(thinkFaults) }

func (c *chaos) cloudFails() bool {
	fails := c.odds[CloudDown] > 0 && c.w.chance(c.odds[CloudDown])
	if fails {
		c.w.count(string(CloudDown))
	}
	return fails
}

func (c *chaos) draw(faults []Fault) Fault {
	if !c.stormy {
		return ""
	}
	x := c.w.rand.Float64()
	for _, f := range faults {
		if x -= c.odds[f]; x < 0 {
			c.w.count(string(f))
			return f
		}
	}
	return ""
}

// before returns what a write is answered that is not performed.
func (f Fault) before(w *World, kind, name string) error {
	switch f {
	case Refused:
		return apierrors.NewInternalError(errCloud)
	case Conflict:
		return apierrors.NewConflict(cluster.ResourceOf(kind), name, errCloud)
	case Throttled:
		w.at = w.at.Add(w.between(0, 100*time.Millisecond))
		return apierrors.NewTooManyRequests("world: too many requests", 1)
	default:
		return nil
	}
}

// delay is how long the cloud takes beside what is asked.
func (c *chaos) delay() time.Duration { return c.w.between(0, 100*time.Millisecond+c.slow) }

// joining decides when an instance's Node joins, if it does.
func (c *chaos) joining() (wait time.Duration, joins bool) {
	w := c.w
	wait = w.between(10*time.Second, 45*time.Second)
	switch c.draw(joinFaults) {
	case NeverJoins:
		return 0, false
	case JoinsLate:
		wait += w.between(time.Minute, 20*time.Minute)
	default:
	}
	return wait, true
}

var errCloud = errors.New("world: the cloud does not answer")
