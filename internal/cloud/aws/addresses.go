package aws

import (
	"sync"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	// emptyKept is for how long a subnet without free addresses is not used.
	emptyKept = 3 * time.Minute
	// subnetsMost bounds the memory; with more, all are learnt anew.
	subnetsMost = 10_000
)

// addresses keeps account of the free addresses of subnets: what EC2 said last, less what
// was launched since.
type addresses struct {
	now func() time.Time

	mu      sync.Mutex
	subnets map[string]subnet // by id
}

type subnet struct {
	free  int
	empty time.Time // until then, whatever EC2 said
}

// learn notes how many addresses EC2 says are free.
func (a *addresses) learn(id string, free int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.subnets == nil || len(a.subnets) >= subnetsMost {
		a.subnets = map[string]subnet{}
	}
	s := a.subnets[id]
	s.free = free
	a.subnets[id] = s
}

// take notes that instances were launched that need so many addresses.
func (a *addresses) take(id string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, known := a.subnets[id]; known {
		s.free -= n
		a.subnets[id] = s
	}
}

// exhausted notes that EC2 found no free address.
func (a *addresses) exhausted(id string) {
	a.learn(id, 0)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subnets[id] = subnet{empty: a.now().Add(emptyKept)}
}

// best returns the subnet of each zone that has most free addresses. Among equals, and
// where nothing is known, the first wins. A zone of which all subnets are empty has none.
func (a *addresses) best(of []awsv1.Subnet) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	best := map[string]string{}
	for _, s := range of {
		if now.Before(a.subnets[s.ID].empty) {
			continue
		}
		if had, ok := best[s.Zone]; !ok || a.subnets[s.ID].free > a.subnets[had].free {
			best[s.Zone] = s.ID
		}
	}
	return best
}
