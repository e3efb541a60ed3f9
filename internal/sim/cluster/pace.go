package cluster

import "time"

// Pace is how fast controllers create pods, as kube-controller-manager does: all together at most QPS
// in a second after the first Burst, and each workload in batches of 1, 2, 4 and so on, of which each
// begins when the one before is done.
type Pace struct {
	QPS   float64
	Burst int
	// Least and Most bound how long the creation of one pod takes, in which Workload.Slow is not.
	Least, Most time.Duration
}

// wakeLeast and wakeMost bound how long a controller takes to see a change, where there is a pace.
const (
	wakeLeast = 5 * time.Millisecond
	wakeMost  = 60 * time.Millisecond
)

// pacer lets requests pass at a pace.
type pacer struct {
	Pace
	// full is when the bucket is full again.
	full time.Time
}

// wait takes a token, and returns how long it takes until there is one.
func (p *pacer) wait(now time.Time) time.Duration {
	each := time.Duration(float64(time.Second) / p.QPS)
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(each)
	return max(0, p.full.Sub(now)-time.Duration(p.Burst)*each)
}

// createPaced makes the pods that a workload lacks, in batches that double.
func (l *Workloads) createPaced(a *Workload, batch int) {
	active := 0
	for _, pod := range l.api.PodsOf(a.Name) {
		if IsActive(pod) && pod.DeletionTimestamp == nil {
			active++
		}
	}
	left := min(batch, a.Replicas-active)
	if a.creating = left > 0; !a.creating {
		return
	}
	for range left {
		took := l.pacer.wait(l.config.now()) + a.Slow + l.config.Between(l.pacer.Least, l.pacer.Most)
		l.config.after(took, func() {
			l.created++
			_ = l.api.Create(a.pod(l.created)) // names are unique
			if left--; left == 0 {
				l.createPaced(a, 2*batch)
			}
		})
	}
}
