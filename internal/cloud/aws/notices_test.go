package aws

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	message := func(source, detailType, detail string) string {
		return `{"version":"0","id":"x","source":"` + source + `","detail-type":"` + detailType + `","account":"1","time":"2026-11-01T12:00:00Z","region":"us-east-1","resources":[],"detail":` + detail + `}`
	}
	for name, c := range map[string]struct {
		body  string
		want  []cloud.Notice
		isBad bool
	}{
		"a spot instance has two minutes": {
			body: message("aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-1","instance-action":"terminate"}`),
			want: []cloud.Notice{{Kind: cloud.Reclaimed, InstanceID: "i-1", Ends: sent.Add(2 * time.Minute)}},
		},
		"a recommendation": {
			body: message("aws.ec2", "EC2 Instance Rebalance Recommendation", `{"instance-id":"i-1"}`),
			want: []cloud.Notice{{Kind: cloud.RebalanceRecommended, InstanceID: "i-1"}},
		},
		"an instance stops":  {body: message("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-1","state":"stopping"}`), want: []cloud.Notice{{Kind: cloud.Stopped, InstanceID: "i-1"}}},
		"an instance ends":   {body: message("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-1","state":"shutting-down"}`), want: []cloud.Notice{{Kind: cloud.Ended, InstanceID: "i-1"}}},
		"an instance starts": {body: message("aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-1","state":"running"}`)},
		"maintenance has a day": {body: message("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":"Sat, 07 Nov 2026 03:00:00 GMT","affectedEntities":[{"entityValue":"i-1"},{"entityValue":"i-2"}]}`), want: []cloud.Notice{
			{Kind: cloud.MaintenanceScheduled, InstanceID: "i-1", Ends: time.Date(2026, 11, 7, 3, 0, 0, 0, time.UTC)},
			{Kind: cloud.MaintenanceScheduled, InstanceID: "i-2", Ends: time.Date(2026, 11, 7, 3, 0, 0, 0, time.UTC)},
		}},
		"another service's event":  {body: message("aws.health", "AWS Health Event", `{"service":"RDS","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"db"}]}`)},
		"a stranger's message":     {body: message("aws.s3", "Object Created", `{}`)},
		"another form of envelope": {body: `{"version":"1","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"i-1"}}`},
		"not JSON":                 {body: `hello`, isBad: true},
		"a detail of a wrong type": {body: message("aws.ec2", "EC2 Spot Instance Interruption Warning", `[]`), isBad: true},
	} {
		got, _, err := parseMessage(c.body)
		if (err != nil) != c.isBad {
			t.Errorf("%s: error %v", name, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(`{"version":"0","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","time":"2026-11-01T12:00:00Z","detail":{"instance-id":"i-1"}}`)
	f.Add(`{"version":"0","source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{}]}}`)
	f.Add(`{"version":"0","source":"aws.health","detail-type":"AWS Health Event","time":"9999-12-31T23:59:59Z","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":"Sat, 07 Nov 2026 03:00:00 GMT","affectedEntities":[{"entityValue":"i-1"},{"entityValue":"i-1"}]}}`)
	f.Add(`{"version":"0","source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"stopping","state":"running"}}`)
	f.Add(`{"version":"0","source":"aws.ec2","detail-type":"EC2 Capacity Reservation Instance Interruption Warning","time":"0001-01-01T00:00:00Z","detail":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		notices, sent, err := parseMessage(body)
		if err != nil && notices != nil {
			t.Errorf("malformed, and yet it says %v", notices)
		}
		if len(notices) > len(body)/2 {
			t.Errorf("%d notices from %d bytes", len(notices), len(body))
		}
		for _, n := range notices {
			if n.Kind == "" || n.Kind == cloud.NoticeKind(noOp) {
				t.Errorf("a notice of no kind: %+v", n)
			}
			if (n.Kind == cloud.Reclaimed || n.Kind == cloud.ReservationReclaimed) && !n.Ends.Equal(sent.Add(noticeSpot)) {
				t.Errorf("sent at %s, it ends at %s", sent, n.Ends)
			}
		}
		again, _, _ := parseMessage(body)
		if diff := cmp.Diff(notices, again, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("it says something else the second time (-first +second):\n%s", diff)
		}
		// Whatever says nothing of ours says nothing within another envelope.
		if wrapped, _, err := parseMessage(`{"version":"0","source":"aws.s3","detail-type":"Object Created","detail":` + body + `}`); len(wrapped) > 0 && err == nil && json.Valid([]byte(body)) {
			t.Errorf("a stranger's message says %v", wrapped)
		}
	})
}

// TestQueue reads notices over the wire: about our instances, about others', twice, and
// nonsense. What cannot be acted on comes again; the queue is empty in the end.
func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		p.opts.InterruptionQueue = "demo"
		observed := map[string]int{}
		var mu sync.Mutex
		p.opts.Handled = func(kind string, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			observed[kind]++
		}
		w.ready(t, p, "default")
		ids := slices.Sorted(maps.Values(launchIDs(t, p, requests(t, p, 3, label.Requirements{
			label.CapacityType: label.In(label.Spot), corev1.LabelOSStable: label.In("linux"),
		}))))
		if len(ids) != 3 {
			t.Fatalf("launched %v, want three", ids)
		}
		bare, _ := instanceID(ids[0])
		for _, body := range []string{
			"nonsense", `{"version":"0","source":"aws.s3","detail-type":"Object Created","detail":{}}`,
			`{"version":"0","source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-0123456789abcdef0","state":"stopped"}}`,
			`{"version":"0","source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"not an id","state":"stopped"}}`,
		} {
			w.sim.Send(body)
		}
		time.Sleep(time.Minute)
		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Count: 1, Target: bare}); err != nil {
			t.Fatal(err)
		}
		reported := map[string]int{}
		refuse := true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Watch(ctx, func(_ context.Context, n cloud.Notice) error {
				mu.Lock()
				defer mu.Unlock()
				if refuse {
					refuse = false
					return errors.New("not now")
				}
				reported[string(n.Kind)+" "+n.InstanceID]++
				if left := time.Until(n.Ends); n.Kind == cloud.Reclaimed && (left < 60*time.Second || left > 2*time.Minute) {
					t.Errorf("the instance ends in %s", left)
				}
				return nil
			})
		}()
		time.Sleep(time.Minute)
		mu.Lock()
		if reported["spot_interrupted "+ids[0]] == 0 || len(reported) != 1 {
			t.Errorf("reported %v, want that %s is taken back", reported, ids[0])
		}
		if observed[noOp] < 2 {
			t.Errorf("observed %v", observed)
		}
		mu.Unlock()
		if n := w.sim.QueueLength(); n != 0 {
			t.Errorf("%d messages are left in the queue", n)
		}
		cancel()
		<-done
	})
}
