package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dovetail-sh/dovetail/"

// floors lists the packages from the ground up. A package may import from lower
// floors only: not from its own and not from above. An entry covers its subtree
// unless a longer entry does.
var floors = [][]string{
	{"internal/core/effort"},
	{"api", "config/crd", "examples", "internal/core/quantity", "internal/core/label", "internal/core/verdict", "internal/core/cover"},
	{"internal/core/catalog"},
	{"internal/core/cluster"},
	{"internal/core/fit", "internal/core/overlay", "internal/core/topology", "internal/core/drift", "internal/core/plan"},
	{"internal/core/pack/model", "internal/core/budget", "internal/core/buffer"},
	{"internal/core/pack/place"},
	{"internal/core/pack/launch", "internal/core/pack/disperse", "internal/core/repack"},
	{"internal/core/pack", "internal/core/static", "internal/core/quarantine", "internal/core/lifecycle", "internal/core/nominate"},
	{"internal/core/consolidate"},
	{"internal/core/disrupt"},
	{"internal/core/deletioncost", "internal/core/forecast"},
	{"internal/convert", "internal/kube/condition", "internal/controller/loop", "internal/decision/record", "internal/view"},
	{"internal/kube/translate", "internal/kube/devices", "internal/cloud", "internal/cloud/ec2catalog", "internal/decision/journal", "internal/decision/redact", "internal/decision/scenario"},
	{"internal/kube/mirror", "internal/cloud/aws", "internal/cloud/clusterapi", "internal/cloud/kwok", "internal/cloud/multi", "internal/cloud/remote", "internal/sim/awssim"},
	{"internal/kube/apply", "internal/kube/describe", "internal/kube/observe", "internal/decision/simulate", "internal/decision/history", "internal/cloud/cloudtest"},
	{"internal/controller", "internal/cloud/remote/wiretest", "internal/decision/whatif"},
	{"internal/operator"},
	{"internal/cli/nodegroups"},
	{"internal/cli/demo", "internal/cli/doctor", "internal/cli/savings", "internal/tui"},
	{"internal/cli"},
	{"cmd"},
	// Tests only; what they hold ships in no binary.
	{"internal/testkit"},
	{"internal/sim/cluster"},
	{"internal/sim/world"},
	{"internal/archtest", "test"},
}

// separate lists entries whose packages may not import each other: siblings that
// share nothing. Inside any other entry packages may import each other.
var separate = []string{"api", "internal/controller"}

// impure lists what the core may not import from the standard library. Time and
// randomness come in through the snapshot.
var impure = []string{"context", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "sync", "sync/atomic", "unsafe"}

// listed is what go list says of a package. Imports leaves out those of its tests.
type listed struct {
	ImportPath, Dir, Doc string
	GoFiles, Imports     []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports", module+"...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

// locate returns the floor of a package and the entry that put it there; -1 if
// none did.
func locate(path string) (floor int, entry string) {
	rel := strings.TrimPrefix(path, module)
	floor = -1
	for i, names := range floors {
		for _, name := range names {
			if (rel == name || strings.HasPrefix(rel, name+"/")) && len(name) > len(entry) {
				floor, entry = i, name
			}
		}
	}
	return floor, entry
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		from, entry := locate(p.ImportPath)
		if from < 0 {
			t.Errorf("%s is on no floor: add it to the list", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if to, target := locate(imp); to >= from && (target != entry || slices.Contains(separate, entry)) {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports go down", p.ImportPath, from, imp, to)
			}
		}
	}
}

func TestCoreIsPure(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !isCore(p.ImportPath) {
			continue
		}
		for _, imp := range p.Imports {
			first, _, _ := strings.Cut(imp, "/")
			switch {
			case isCore(imp):
			case strings.HasPrefix(imp, module), strings.Contains(first, "."):
				t.Errorf("%s imports %s: the core sees only the core and the standard library", p.ImportPath, imp)
			case slices.Contains(impure, imp):
				t.Errorf("%s imports %s: the core does no I/O and keeps no locks", p.ImportPath, imp)
			}
		}
	}
}

func isCore(path string) bool { return strings.HasPrefix(path, module+"internal/core/") }

// TestOnlyTheProviderTalksToItsCloud keeps the SDKs of clouds in their rooms.
func TestOnlyTheProviderTalksToItsCloud(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if p.ImportPath == module+"internal/cloud/aws" || strings.HasPrefix(p.ImportPath, module+"internal/cloud/aws/") {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "github.com/aws/") {
				t.Errorf("%s imports %s: only internal/cloud/aws talks to AWS", p.ImportPath, imp)
			}
		}
	}
}

// TestOnlyTheRemoteProviderSpeaksGRPC keeps the wire of providers in other processes in its room.
func TestOnlyTheRemoteProviderSpeaksGRPC(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if rel == "api/provider/v1" || strings.HasPrefix(rel+"/", "internal/cloud/remote/") {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "google.golang.org/grpc") {
				t.Errorf("%s imports %s: only internal/cloud/remote speaks gRPC", p.ImportPath, imp)
			}
		}
	}
}

// TestOnlyTopDrawsOnTheTerminal keeps the libraries that draw in one room. Whether there is a terminal at all is asked above it.
func TestOnlyTopDrawsOnTheTerminal(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if p.ImportPath == module+"internal/tui" {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "charm.land/") || strings.HasPrefix(imp, "github.com/charmbracelet/") && imp != "github.com/charmbracelet/x/term" {
				t.Errorf("%s imports %s: only internal/tui draws on the terminal", p.ImportPath, imp)
			}
		}
	}
}

// TestTypesHoldNoBehaviour keeps api/ importable by anybody: wire types need
// nothing but the types they are made of.
func TestTypesHoldNoBehaviour(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module+"api/") {
			continue
		}
		for _, imp := range p.Imports {
			first, _, _ := strings.Cut(imp, "/")
			if p.ImportPath == module+"api/provider/v1" && strings.HasPrefix(imp, "google.golang.org/") {
				continue // it is made for gRPC
			}
			if strings.Contains(first, ".") && !strings.HasPrefix(imp, "k8s.io/api/") && !strings.HasPrefix(imp, "k8s.io/apimachinery/") {
				t.Errorf("%s imports %s: wire types need only k8s.io/api and k8s.io/apimachinery", p.ImportPath, imp)
			}
		}
	}
}
