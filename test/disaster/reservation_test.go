package disaster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// reserve has the account reserve instances and the class use them, in a pool that launches
// nothing else.
func (w *world) reserve(r awssim.Reservation) string {
	w.t.Helper()
	r.InstanceType, r.Zone, r.Total, r.Tags = "m5.2xlarge", "us-east-1a", 3, map[string]string{"for": "us"}
	id, err := w.sim.AddReservation(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.furnish("8")
	edit(w.kube, "default", func(class *awsv1.EC2NodeClass) {
		class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: r.Tags}}
	})
	edit(w.kube, "general", func(pool *karpenterv1.NodePool) {
		pool.Spec = *pool.Spec.DeepCopy()
		for i := range pool.Spec.Template.Spec.Requirements {
			if in := &pool.Spec.Template.Spec.Requirements[i]; in.Key == karpenterv1.CapacityTypeLabelKey {
				in.Values = append(in.Values, karpenterv1.CapacityTypeReserved)
			}
		}
	})
	return id
}

// inReservation counts the Nodes and claims that say that they are in a reservation.
func (w *world) inReservation(id string) (nodes, claims int) {
	w.kube.locked(func() {
		for _, n := range cluster.All[*corev1.Node](w.kube.api) {
			if n.Labels[awsv1.LabelCapacityReservationID] == id && n.Labels[karpenterv1.CapacityTypeLabelKey] == karpenterv1.CapacityTypeReserved {
				nodes++
			}
		}
		for _, c := range cluster.All[*karpenterv1.NodeClaim](w.kube.api) {
			if c.Labels[awsv1.LabelCapacityReservationID] == id && c.Labels[karpenterv1.CapacityTypeLabelKey] == karpenterv1.CapacityTypeReserved {
				claims++
			}
		}
	})
	return nodes, claims
}

// fill has pods that need all instances of the reservation.
func (w *world) fill(id string) {
	w.t.Helper()
	w.begin()
	w.until(5*time.Minute, w.poolReady)
	w.kube.scale(&cluster.Workload{Name: "app", CPUMilli: 3000, MemoryMiB: 1024, GraceSeconds: 20}, 6)
	w.until(10*time.Minute, func() string { return w.allRun(6) })
	w.until(5*time.Minute, w.agree)
	if nodes, claims := w.inReservation(id); nodes != 3 || claims != 3 {
		w.t.Fatalf("%d Nodes and %d claims are in the reservation, want 3 and 3", nodes, claims)
	}
}

// TestReservationIsCancelled has instances run on when their reservation is no more: within
// two minutes Nodes and claims say that they are paid for on demand, and none is replaced
// for it.
func TestReservationIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.end()
		id := w.reserve(awssim.Reservation{})
		w.fill(id)
		w.sim.CancelReservation(id)
		w.until(2*time.Minute, func() string {
			if nodes, claims := w.inReservation(id); nodes+claims > 0 {
				return fmt.Sprintf("%d Nodes and %d claims still say that they are in the reservation", nodes, claims)
			}
			return ""
		})
		for _, i := range w.sim.Instances() {
			if !i.Live() {
				t.Errorf("instance %s was ended though it runs on", i.ID)
			}
		}
	})
}

// TestCapacityBlockEnds has the instances of a capacity block replaced before EC2 begins to
// take them back, half an hour before the block's end.
func TestCapacityBlockEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.end()
		ends := time.Now().Add(50 * time.Minute)
		id := w.reserve(awssim.Reservation{Type: awsv1.CapacityReservationTypeCapacityBlock, End: ends})
		w.fill(id)
		time.Sleep(time.Until(ends.Add(-41 * time.Minute)))
		if nodes, _ := w.inReservation(id); nodes != 3 {
			t.Errorf("%d Nodes are in the block while it has time left, want 3", nodes)
		}
		least := 6
		for time.Until(ends.Add(-30*time.Minute)) > time.Second {
			least = min(least, w.picture().running)
			time.Sleep(time.Second)
		}
		if nodes, claims := w.inReservation(id); nodes+claims > 0 {
			t.Errorf("when EC2 takes the instances back %d Nodes and %d claims are left in the block", nodes, claims)
		}
		if least < 3 {
			t.Errorf("only %d of 6 pods ran meanwhile", least)
		}
		w.until(5*time.Minute, func() string { return w.allRun(6) })
		w.until(5*time.Minute, w.agree)
	})
}

// TestReservationThatEC2CannotServe has EC2 refuse launches from a healthy reservation: pods get
// nodes on demand instead, after few refusals, and the reservation is used again some minutes later.
func TestReservationThatEC2CannotServe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.end()
		id := w.reserve(awssim.Reservation{})
		w.begin()
		w.until(5*time.Minute, w.poolReady)
		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultShort, CapacityType: karpenterv1.CapacityTypeReserved, For: metav1.Duration{Duration: 3 * time.Minute}}); err != nil {
			t.Fatal(err)
		}
		w.kube.scale(&cluster.Workload{Name: "app", CPUMilli: 3000, MemoryMiB: 1024, GraceSeconds: 20}, 4)
		w.until(3*time.Minute, func() string { return w.allRun(4) })
		if nodes, _ := w.inReservation(id); nodes > 0 {
			t.Errorf("%d Nodes are in a reservation that EC2 refused", nodes)
		}
		if n := w.sim.Refused()["ec2:CreateFleet InsufficientInstanceCapacity"]; n == 0 || n > 3 {
			t.Errorf("EC2 refused %d launches, want one to three", n)
		}
		time.Sleep(5 * time.Minute)
		w.kube.scale(&cluster.Workload{Name: "more", CPUMilli: 7000, MemoryMiB: 1024, GraceSeconds: 20}, 2)
		w.until(5*time.Minute, func() string { return w.allRun(6) })
		if nodes, _ := w.inReservation(id); nodes == 0 {
			t.Error("the reservation is not used again")
		}
		w.until(5*time.Minute, w.agree)
	})
}

// TestUsedUpReservationGivesBack fills a reservation, ends one of its workloads and begins another:
// the place that became free is taken, and nothing was refused meanwhile.
func TestUsedUpReservationGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.end()
		id := w.reserve(awssim.Reservation{})
		w.fill(id)
		w.kube.scale(&cluster.Workload{Name: "app", CPUMilli: 3000, MemoryMiB: 1024, GraceSeconds: 20}, 0)
		w.until(20*time.Minute, func() string {
			if nodes, claims := w.inReservation(id); nodes+claims > 0 {
				return fmt.Sprintf("%d Nodes and %d claims are still in the reservation", nodes, claims)
			}
			return ""
		})
		time.Sleep(3 * time.Minute)
		w.kube.scale(&cluster.Workload{Name: "next", CPUMilli: 3000, MemoryMiB: 1024, GraceSeconds: 20}, 6)
		w.until(10*time.Minute, func() string { return w.allRun(6) })
		if nodes, _ := w.inReservation(id); nodes != 3 {
			t.Errorf("%d Nodes are in the reservation, want 3", nodes)
		}
		if refused := w.sim.Refused(); refused["ec2:CreateFleet ReservationCapacityExceeded"] > 0 {
			t.Errorf("EC2 refused %v", refused)
		}
	})
}
