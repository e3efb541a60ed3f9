package e2e

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// afterPause is how long a leader that was stopped is watched when it goes on.
const afterPause = 4 * time.Second

var pauses = flag.Int("pauses", 1, "how often TestReplicas stops the leader for longer than its lease")

// TestReplicas runs two replicas and takes the leader away: by SIGKILL, and by SIGSTOP for
// longer than its lease, after which it goes on. Never more than one acts, and what the crashed
// left half done is neither done twice nor lost.
func TestReplicas(t *testing.T) {
	t.Parallel()
	b := &border{acts: map[string]int{}}
	p := newPlay(t)
	replicas := map[string]*replica{}
	for _, name := range []string{"a", "b"} {
		replicas[name] = &replica{gate: b.openGate(t, name, p.rights, p.env)}
		replicas[name].start(p)
		b.awaitLeader(t, "a")
	}
	p.awaitAll(patience)
	p.judgeBudgets()
	p.stage("all run")

	moments := append(acts()[0].moments, acts()[2].moments...)
	for i := range 1 + *pauses {
		leader, other := b.leads(), "b"
		if leader == "b" {
			other = "a"
		}
		kill := i == 0
		moment := moments[p.random.IntN(len(moments))]
		before := p.witness.count(moment)
		p.grow()
		p.drift()
		p.witness.await(moment, before+1, crashLife)
		if kill {
			replicas[leader].process.kill()
		} else {
			replicas[leader].process.signal(syscall.SIGSTOP)
		}
		p.shrink()
		p.grow() // decided anew, while a snapshot of before is kept
		b.awaitLeader(t, other)
		p.stage(fmt.Sprintf("%s leads, %s was taken away at %s", other, leader, moment))
		p.shrink()
		p.awaitAll(patience)
		if kill {
			replicas[leader].start(p)
			continue
		}
		replicas[leader].process.signal(syscall.SIGCONT)
		timer := time.NewTimer(afterPause)
		<-timer.C
		p.stage(leader + " went on")
		if !replicas[leader].process.running() {
			t.Errorf("%s ended when it had lost its lease:\n%s", leader, replicas[leader].process)
		}
	}
	p.awaitRest(crashPods / 4)
	p.report()
	b.mu.Lock()
	defer b.mu.Unlock()
	t.Logf("%d terms; acts: %v", b.terms, b.acts)
	for _, broken := range b.broken {
		t.Error(broken)
	}
}

// replica is one of several controllers.
type replica struct {
	gate    *gate
	process *process
}

func (r *replica) start(p *play) {
	p.t.Helper()
	r.process = p.startAs(r.gate.kubeconfig, r.gate.env, "--cluster-ca-bundle=Y2VydGlmaWNhdGU=")
}

// awaitLeader returns when a replica leads.
func (b *border) awaitLeader(t *testing.T, name string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if leader := b.leads(); leader != name {
			return fmt.Errorf("replica %q leads, not %q", leader, name)
		}
		return nil
	})
}

// signal sends a signal to the process.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}
