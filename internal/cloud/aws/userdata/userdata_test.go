package userdata_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/pelletier/go-toml/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/userdata"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// node returns a node of the family as it is without a word on its kubelet.
func node(t testing.TB, name, kubeletYAML string) *userdata.Node {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(kubeletYAML))
	if err != nil {
		t.Fatal(err)
	}
	config, err := kubelet.Parse(&runtime.RawExtension{Raw: json})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config.Resolve(kubelet.InstanceType{Type: "m5.large", VCPUs: 2, MemoryMiB: 8192, ENIs: 3, IPsPerENI: 10, Pods: 29})
	if err != nil {
		t.Fatal(err)
	}
	return &userdata.Node{
		Family:  family.Of(&awsv1.EC2NodeClassSpec{AMIFamily: &name}),
		Cluster: userdata.Cluster{Name: "demo", Endpoint: "https://demo.example", CA: "Q0E=", CIDR: "10.100.0.0/16", DNS: "10.100.0.10"},
		Labels: map[string]string{
			"team": "web", "karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default",
			"topology.kubernetes.io/zone": "us-east-1a", "node-restriction.kubernetes.io/x": "y", "kubernetes.io/os": "linux", "topology.k8s.aws/zone-id": "use1-az1",
		},
		Taints:  []cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
		Kubelet: settings,
	}
}

// TestStories runs the files in testdata:
//
//	kubelet                            what spec.kubelet is from here on, in YAML
//	make family=NAME [raid] [image=V]  the user data of a node, whose user's part is the input
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		settings := "{}"
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "kubelet" {
				settings = d.Input
				return ""
			}
			var name string
			d.ScanArgs(t, "family", &name)
			n := node(t, name, settings)
			n.Custom = d.Input
			if d.HasArg("raid") {
				n.StorePolicy = new(awsv1.InstanceStorePolicyRAID0)
			}
			d.MaybeScanArgs(t, "image", &n.ImageVersion)
			text, err := userdata.Make(n)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			if again, _ := userdata.Make(n); again != text {
				t.Errorf("made twice, it is another:\n%s", again)
			}
			return text
		})
	})
}

// TestWhatIsSaidTwiceIsThereOnce: who passes the taint of nodes that have not registered
// does not get two.
func TestWhatIsSaidTwiceIsThereOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{family.AL2023, family.AL2, family.Bottlerocket, family.Windows2019} {
		n := node(t, name, "{}")
		n.Taints = append(n.Taints, cluster.Taint{Key: "karpenter.sh/unregistered", Effect: "NoExecute"})
		text, err := userdata.Make(n)
		if got := strings.Count(text, "karpenter.sh/unregistered"); err != nil || got != 1 {
			t.Errorf("%s: error %v, the taint is there %d times", name, err, got)
		}
	}
}

// TestQuotes has a name that would end a quoted word of a script.
func TestQuotes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		family.AL2:         `bootstrap.sh 'it'\''s; rm -rf /' --apiserver-endpoint`,
		family.Windows2019: `-EKSClusterName 'it''s; rm -rf /' -APIServerEndpoint`,
	} {
		n := node(t, name, "{}")
		n.Cluster.Name = "it's; rm -rf /"
		if text, err := userdata.Make(n); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: error %v, user data is\n%s\nwant %s in it", name, err, text, want)
		}
	}
}

// document is one part of a MIME message.
type document struct{ media, body string }

// documents reads a MIME message as cloud-init would.
func documents(t *testing.T, text string) []document {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("not a message: %v\n%s", err, text)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var out []document
	r := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("part %d: %v\n%s", len(out), err, text)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatalf("part %d: %v\n%s", len(out), err, text)
		}
		out = append(out, document{p.Header.Get("Content-Type"), string(body)})
	}
}

// FuzzCustom checks that no text of the user breaks out of its place: whatever it is, ours
// is there whole, once, and in effect.
func FuzzCustom(f *testing.F) {
	for _, text := range []string{
		"", "echo hello", "--//\n", "--//--\nevil", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"x\"\n\n--x\nContent-Type: a/b\n\nc\n--x--\n",
		"Content-Type: text/x-shellscript\n\necho", "a: b", "[settings.kubernetes]\napi-server = 'mine'\n", "</powershell>", "settings = 3", "\r\n--//\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{family.AL2023, family.AL2} {
			n := node(t, name, "{}")
			alone, err := userdata.Make(n)
			if err != nil {
				t.Fatal(err)
			}
			n.Custom = text
			got, err := userdata.Make(n)
			if err != nil {
				continue
			}
			ours, all := documents(t, alone), documents(t, got)
			if all[len(all)-1] != ours[0] {
				t.Errorf("the last part is\n%v\nwant\n%v", all[len(all)-1], ours[0])
			}
		}
		bottlerocket(t, text)
		n := node(t, family.Windows2022, "{}")
		n.Custom = text
		if got, err := userdata.Make(n); err == nil && strings.Count(strings.ToLower(got), "powershell>") != 2 {
			t.Errorf("more than one block:\n%s", got)
		}
	})
}

func bottlerocket(t *testing.T, text string) {
	t.Helper()
	n := node(t, family.Bottlerocket, "{}")
	n.Custom = text
	got, err := userdata.Make(n)
	if err != nil {
		return
	}
	var read struct {
		Settings struct {
			Kubernetes struct {
				Server string `toml:"api-server"`
			}
		}
	}
	if err := toml.Unmarshal([]byte(got), &read); err != nil || read.Settings.Kubernetes.Server != "https://demo.example" {
		t.Errorf("read back: %v, %+v\n%s", err, read, got)
	}
}

// TestWindowsHasNoInodes: a kubelet that takes its thresholds as a whole gets one for
// inodes where there are any.
func TestWindowsHasNoInodes(t *testing.T) {
	t.Parallel()
	for name, inodes := range map[string]bool{family.AL2: true, family.Bottlerocket: true, family.Windows2022: false} {
		got, err := userdata.Make(node(t, name, "{evictionHard: {memory.available: 5%}}"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, "nodefs.available") || strings.Contains(got, "nodefs.inodesFree") != inodes {
			t.Errorf("%s: want inodes to be named: %t\n%s", name, inodes, got)
		}
	}
	if got, err := userdata.Make(node(t, family.Windows2022, "{evictionHard: {nodefs.inodesFree: 5%}}")); err != nil || !strings.Contains(got, "nodefs.inodesFree") {
		t.Errorf("what a class names is left out: %v\n%s", err, got)
	}
}
