package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestCredentialsAreTakenNowhere runs the controller at its most talkative while AWS fails in
// many ways, and looks for its credentials in all that it leaves behind: log, metrics, journal,
// objects of the API, dumps, user data and tags.
func TestCredentialsAreTakenNowhere(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	keys := awssim.Credentials{AccessKey: "AKIDSOUGHT0000000001", SecretKey: "sought/secret+of=the-only-user-00000002", SessionToken: "sought-session/token+00000003=="}
	sim, env := account(t, cluster, c, keys)
	for _, o := range []client.Object{awsClass(), awsPool()} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	p := startIn(t, env, "controller", "--kubeconfig", cluster.Kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0", "--log-level", "debug",
		"--journal-dir", dir, "--enable-profiling", "true", "--cloud-provider=aws", "--cluster-name=demo", "--interruption-queue=demo", "--batch-idle-duration=500ms")
	testkit.Eventually(t, patience, func() error { return poolReady(t.Context(), c) })
	for _, kind := range []string{awssim.FaultDenied, awssim.FaultExpired, awssim.FaultError, awssim.FaultDown, awssim.FaultCut, awssim.FaultThrottle} {
		if err := sim.Inject(awssim.Fault{Kind: kind, Times: 3, For: metav1.Duration{Duration: 20 * time.Second}}); err != nil {
			t.Fatal(err)
		}
	}
	const pods = 12
	deploy(t, c, pods)
	testkit.Eventually(t, 4*time.Minute, func() error {
		now, err := observe(t.Context(), c)
		if err == nil && now.running() != pods {
			err = fmt.Errorf("%d of %d pods run", now.running(), pods)
		}
		return err
	})
	left := leftBehind(t.Context(), t, c, sim, p)
	dump := filepath.Join(t.TempDir(), "dump.json")
	expect(t, 0, "snapshot", "--kubeconfig", cluster.Kubeconfig, "--file", dump)
	left["dump"] = readFile(t, dump)
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	left["log"] = p.String()
	left["journal on disk"] = decisions(t, dir)
	for where, text := range left {
		if len(text) < 100 {
			t.Errorf("%s has only %q: nothing was looked at", where, text)
		}
		for _, reported := range sought(keys, text) {
			t.Errorf("%s has %s", where, reported)
		}
	}
}

// sought returns which parts of the credentials a text has, in whatever form.
func sought(keys awssim.Credentials, text string) []string {
	var reported []string
	for name, secret := range map[string]string{"the access key": keys.AccessKey, "the secret key": keys.SecretKey, "the session token": keys.SessionToken} {
		quoted, err := json.Marshal(secret)
		if err != nil {
			quoted = nil
		}
		for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)), strings.Trim(string(quoted), `"`)} {
			if strings.Contains(text, form) {
				reported = append(reported, name)
				break
			}
		}
	}
	return reported
}

// leftBehind returns what can be read while the controller runs, by where it was found.
func leftBehind(ctx context.Context, t *testing.T, c client.Client, sim *awssim.Sim, p *process) map[string]string {
	t.Helper()
	left := map[string]string{}
	for _, list := range []client.ObjectList{
		&corev1.EventList{}, &corev1.ConfigMapList{}, &corev1.NodeList{}, &corev1.PodList{}, &karpenterv1.NodeClaimList{}, &karpenterv1.NodePoolList{}, &awsv1.EC2NodeClassList{},
	} {
		if err := c.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		left[fmt.Sprintf("%T", list)] = string(text)
	}
	for _, in := range sim.Instances() {
		left["user data and tags of "+in.ID] = fmt.Sprint(in.UserData, in.Tags)
	}
	left["/metrics"] = get(ctx, t, p.address("metrics")+"/metrics")
	for _, path := range []string{"/debug/journal", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"} {
		left[path] = get(ctx, t, p.address("debug")+path)
	}
	return left
}

func get(ctx context.Context, t *testing.T, address string) string {
	t.Helper()
	text, err := fetch(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func fetch(ctx context.Context, address string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, answer.Status)
	}
	return string(text), err
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// decisions returns the decisions of a journal as text.
func decisions(t *testing.T, dir string) string {
	t.Helper()
	file, err := journal.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range file.Decisions {
		d, err := file.Decisions[i].Decision()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
