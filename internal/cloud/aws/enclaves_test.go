package aws

import (
	"testing"
	"testing/synctest"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestEnclaves launches for classes with and without enclaves: EC2 gets the option either way,
// and only types that can run enclaves when they are wanted. What is left out of the types is
// refused by EC2, so a list that was kept for another class would show.
func TestEnclaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		wanted := map[string]*awsv1.EnclaveOptions{"unsaid": nil, "off": {}, "on": {Enabled: true}}
		types := map[string]int{}
		for name, options := range wanted {
			class := newClass(name)
			class.Spec.EnclaveOptions = options
			if err := w.api.Create(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			w.ready(t, p, name)
			ref := cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: name}
			all, err := p.Types(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			types[name] = len(all)
			rs := requestsOf(t, p, ref, 1, onDemand)
			rs[0].Token, rs[0].Claim = "token-"+name, "claim-"+name
			launchIDs(t, p, rs)
		}
		if types["on"] == 0 || types["on"] >= types["off"] || types["off"] != types["unsaid"] {
			t.Errorf("there are types to choose from: %v", types)
		}
		got := map[string]awssim.Instance{}
		for _, i := range w.sim.Instances() {
			got[i.Tags[awsv1.TagNodeClass]] = i
		}
		for name, want := range map[string]string{"unsaid": "false", "off": "false", "on": "true"} {
			if i := got[name]; i.Enclaves != want {
				t.Errorf("class %s: its instance, a %s, has enclaves %q, want %q", name, i.Type, i.Enclaves, want)
			}
		}
	})
}
