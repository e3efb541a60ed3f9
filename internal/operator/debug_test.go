package operator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// heldLease is a lease that somebody holds, or nobody.
type heldLease struct {
	resourcelock.Interface
	holder string
}

func (l *heldLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, nil
}

func (l *heldLease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.holder = r.HolderIdentity
	return nil
}

func TestAStandbySendsWhoAsksToTheLeader(t *testing.T) {
	t.Parallel()
	const me, other = "karpenter-a_1", "karpenter-b_2"
	for name, c := range map[string]struct {
		alone  bool
		does   func(ctx context.Context, lock resourcelock.Interface) error
		query  string
		status int
		says   string
	}{
		"without an election it answers itself":  {true, nil, "", http.StatusOK, "decisions"},
		"before the lease was seen nobody leads": {false, nil, "", http.StatusServiceUnavailable, "none is known to"},
		"the leader answers":                     {false, takes(me), "", http.StatusOK, "decisions"},
		"a standby names the leader":             {false, takes(other), "", http.StatusMisdirectedRequest, "pod/karpenter-b 8082"},
		"and answers who asks it nevertheless":   {false, takes(other), "?standby=true", http.StatusOK, "decisions"},
		"a lease that was released is nobody's":  {false, takes(""), "", http.StatusServiceUnavailable, "none is known to"},
		"another replica on the host is another": {false, takes("karpenter-a_9"), "", http.StatusMisdirectedRequest, "karpenter-a leads"},
		"what is read counts as what is written": {false, func(ctx context.Context, lock resourcelock.Interface) error {
			_, _, err := lock.Get(ctx)
			return err
		}, "", http.StatusMisdirectedRequest, "karpenter-b leads"},
	} {
		leads := &leadership{me: me, alone: c.alone}
		if c.does != nil {
			if err := c.does(t.Context(), leads.observe(&heldLease{holder: other})); err != nil {
				t.Fatal(err)
			}
		}
		w := httptest.NewRecorder()
		leads.leaderOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("decisions")) })).
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/journal"+c.query, http.NoBody))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %q, want %d and %q", name, w.Code, w.Body, c.status, c.says)
		}
		if got := w.Header().Get(HeaderLeader); (got != "") != (c.status == http.StatusMisdirectedRequest) {
			t.Errorf("%s: %s is %q", name, HeaderLeader, got)
		}
	}
}

// takes returns what gives the lease to somebody.
func takes(holder string) func(context.Context, resourcelock.Interface) error {
	return func(ctx context.Context, lock resourcelock.Interface) error {
		return lock.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: holder})
	}
}

func TestTheDebugPortAnswersForItsOwnNameOnly(t *testing.T) {
	t.Parallel()
	answers := LoopbackOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost:8082": http.StatusOK, "localhost": http.StatusOK, "127.0.0.1:9090": http.StatusOK, "[::1]:8082": http.StatusOK, "[::1]": http.StatusOK,
		"rebound.example:8082": http.StatusForbidden, "10.0.0.7:8082": http.StatusForbidden, "localhost.example": http.StatusForbidden, "": http.StatusForbidden,
	} {
		r := httptest.NewRequest(http.MethodGet, "/debug/journal", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		answers.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("a request to %q: status %d, want %d", host, w.Code, want)
		}
	}
}

func TestTheLeaseSaysWhereTheDebugPortIs(t *testing.T) {
	for name, c := range map[string]struct{ service, address, port, runsIn string }{
		"a pod":                      {"10.0.0.1", "127.0.0.1:8082", "8082", RunsInPod},
		"a process outside":          {"", "127.0.0.1:38911", "38911", RunsOnHost},
		"nothing is served":          {"", "", "", RunsOnHost},
		"by the other IP family too": {"10.0.0.1", "[::1]:9090", "9090", RunsInPod},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", c.service)
		api := fake.NewClientset()
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "kube-system", "lease", api.CoreV1(), api.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
		if err != nil {
			t.Fatal(err)
		}
		lock = labelled(lock, c.address)
		if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
			t.Fatal(err)
		}
		lease, err := api.CoordinationV1().Leases("kube-system").Get(t.Context(), "lease", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if port, runsIn := lease.Labels[LabelDebugPort], lease.Labels[LabelRunsIn]; port != c.port || runsIn != c.runsIn {
			t.Errorf("%s: labels %v, want port %q and %q", name, lease.Labels, c.port, c.runsIn)
		}
	}
}
