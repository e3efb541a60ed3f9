package aws

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// templateRecorder records the launch templates that are made.
type templateRecorder struct {
	http.RoundTripper
	mu    sync.Mutex
	forms []url.Values
}

func (e *templateRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return e.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") == "CreateLaunchTemplate" {
		e.mu.Lock()
		e.forms = append(e.forms, form)
		e.mu.Unlock()
	}
	return e.RoundTripper.RoundTrip(r)
}

// interfaces returns the network interfaces of the last template, each with what it says
// besides its groups and tags.
func (e *templateRecorder) interfaces(t *testing.T) []string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.forms) == 0 {
		t.Fatal("no launch template was made")
	}
	form, out := e.forms[len(e.forms)-1], []string{}
	for n := 1; ; n++ {
		prefix := "LaunchTemplateData.NetworkInterface." + strconv.Itoa(n) + "."
		var says []string
		for key, values := range form {
			if field, ok := strings.CutPrefix(key, prefix); ok && !strings.HasPrefix(field, "SecurityGroupId") {
				says = append(says, field+"="+values[0])
			}
		}
		if len(says) == 0 {
			return out
		}
		slices.Sort(says)
		out = append(out, strings.Join(says, " "))
	}
}

// recording returns a provider whose launch templates are recorded.
func (w *world) recording(t *testing.T) (*Provider, *templateRecorder) {
	t.Helper()
	p := w.provider(t)
	e := &templateRecorder{RoundTripper: w.sim.Transport()}
	p.opts.Config.HTTPClient = &http.Client{Transport: e}
	p.connect()
	return p, e
}

// TestIPv6 launches in a cluster whose addresses are of IPv6.
func TestIPv6(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const dns = "fd12:3456::a"
		w := newWorld(t, func(o *awssim.Options) { o.Cluster.ServiceCIDR = "fd12:3456::/108" })
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: dns}}
		if err := w.api.Create(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		class := newClass("six")
		class.Spec.IPPrefixCount = aws.Int32(2)
		if err := w.api.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		p, e := w.recording(t)
		w.ready(t, p, "six")
		launchIDs(t, p, requestsOf(t, p, cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "six"}, 1, onDemand))
		want := []string{"DeviceIndex=0 Ipv6AddressCount=1 Ipv6PrefixCount=2 PrimaryIpv6=true"}
		if got := e.interfaces(t); !slices.Equal(got, want) {
			t.Errorf("interfaces %q, want %q", got, want)
		}
		time.Sleep(5 * time.Minute)
		for _, i := range w.sim.Instances() {
			if i.BootError != "" || !strings.Contains(i.UserData, dns) || !strings.Contains(i.UserData, "fd12:3456::/108") {
				t.Errorf("instance %s has %q and this user data:\n%s", i.ID, i.BootError, i.UserData)
			}
		}
	})
}

// TestEFA launches for a pod that asks for EFA, or claims devices of its driver: the instance has as many as its type takes, and
// says so at once and later. One launched without being asked for them has none.
func TestEFA(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isAsked bool // the pods ask for EFAs
		drivers string
		hasEFAs bool
	}{
		"asked for":      {isAsked: true, hasEFAs: true},
		"claimed":        {drivers: "dra.net,gpu.nvidia.com", hasEFAs: true},
		"others claimed": {drivers: "gpu.nvidia.com"},
		"not asked for":  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				p, e := w.recording(t)
				p.opts.EFADevices = true
				w.ready(t, p, "default")
				choices, most := efaChoices(t, p)
				efas, interfaces, asked := int64(0), []string{"DeviceIndex=0"}, quantity.List{quantity.CPU: 1000}
				if c.hasEFAs {
					efas, interfaces = most, efaInterfaces(int(most))
				}
				if c.isAsked {
					asked[awsv1.ResourceEFA] = most
				}
				rs := requests(t, p, 1, onDemand)
				rs[0].Choices, rs[0].Requests = choices[:1], asked
				rs[0].Annotations = map[string]string{karpenterv1.RequestedDRADriversAnnotationKey: c.drivers}
				result := p.Launch(t.Context(), rs)[0]
				if result.Err != nil {
					t.Fatal(result.Err)
				}
				if got := e.interfaces(t); !slices.Equal(got, interfaces) {
					t.Errorf("interfaces %q, want %q", got, interfaces)
				}
				time.Sleep(2 * time.Minute)
				later, err := p.Get(t.Context(), result.Instance.ID)
				if err != nil {
					t.Fatal(err)
				}
				for when, i := range map[string]cloud.Instance{"at once": result.Instance, "later": later} {
					if got := i.Capacity[awsv1.ResourceEFA]; got != efas {
						t.Errorf("%s it has %d EFAs, want %d", when, got, efas)
					}
				}
			})
		})
	}
}

// efaChoices returns the offerings that have the most EFAs, and how many.
func efaChoices(t *testing.T, p *Provider) (choices []catalog.Choice, most int64) {
	t.Helper()
	all, err := p.Types(t.Context(), classRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range all {
		most = max(most, of.Capacity[awsv1.ResourceEFA])
	}
	choices = catalog.Choices(all, onDemand, quantity.List{quantity.CPU: 1000, quantity.Pods: 1, awsv1.ResourceEFA: most})
	if most < 2 || len(choices) == 0 {
		t.Fatalf("no type has more than one EFA (%d) and is available (%d)", most, len(choices))
	}
	return choices, most
}

// efaInterfaces are those of an instance with an EFA on each network card.
func efaInterfaces(n int) []string {
	out := []string{"DeviceIndex=0 InterfaceType=efa NetworkCardIndex=0"}
	for card := 1; card < n; card++ {
		out = append(out, "DeviceIndex=1 InterfaceType=efa NetworkCardIndex="+strconv.Itoa(card))
	}
	return out
}
