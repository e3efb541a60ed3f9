package kwok

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const oneOffering = `"offerings":[{"Price":0.5,"Requirements":[
	{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},
	{"key":"topology.kubernetes.io/zone","operator":"In","values":["z1"]}]}]`

func TestFileReplacesTheTypes(t *testing.T) {
	t.Parallel()
	content := `[
	  {"Name": "m5.large", "architecture": "amd64", "operatingSystems": ["linux", "windows"],
	   "resources": {"cpu": "2", "memory": "8192Mi", "example.com/gpu": 1},
	   "offerings": [
	     {"Price": 0.1, "Available": false, "ReservationCapacity": 3, "Requirements": [
	       {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
	       {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]},
	       {"key": "example.com/reservation", "operator": "DoesNotExist"},
	       {"key": "example.com/rack", "operator": "In", "values": ["r7"]}]},
	     {"Requirements": [
	       {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
	       {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z2"]}]}]}]`
	path := filepath.Join(t.TempDir(), "types.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(nil, Options{InstanceTypesFile: path, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.types) != 1 {
		t.Fatalf("there are %d types, want one", len(p.types))
	}
	got := p.types[0]
	capacity := quantity.List{"cpu": 2000, "memory": 8 << 30, "example.com/gpu": 1, "pods": 110}
	if diff := cmp.Diff(capacity, got.Capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	offerings := []catalog.Offering{
		{Zone: "z1", CapacityType: "on-demand", Labels: map[string]string{"example.com/rack": "r7"}, PriceHourly: 0.1, Priced: true, Available: true},
		{Zone: "z2", CapacityType: "spot", Available: true},
	}
	if diff := cmp.Diff(offerings, got.Offerings); diff != "" {
		t.Errorf("offerings (-want +got):\n%s", diff)
	}
	for key, want := range map[string]string{
		"topology.kubernetes.io/zone": "In [z1 z2]", "kubernetes.io/os": "In [linux windows]", "example.com/rack": "In [r7]",
		"karpenter.kwok.sh/instance-memory": "In [8Gi]", "karpenter.kwok.sh/instance-size": "In [large]",
	} {
		if got := got.Requirements[key].String(); got != want {
			t.Errorf("requirement of %s is %q, want %q", key, got, want)
		}
	}
	if known := strings.Join(p.Vocabulary().WellKnown, " "); !strings.Contains(known, "example.com/rack") {
		t.Errorf("well-known labels are %s, want those of the offerings among them", known)
	}
}

func TestMalformedFileIsOneClearLine(t *testing.T) {
	t.Parallel()
	valid := `{"name":"a","architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":1,"memory":"1Gi"},` + oneOffering + `}`
	for name, c := range map[string]struct{ content, want string }{
		"empty":                    {``, "not a JSON array: line 1: unexpected end of JSON input"},
		"not an array":             {`{}`, "not a JSON array: json: cannot unmarshal object"},
		"broken in the third line": {"[\n\n{,}]", "not a JSON array: line 3: invalid character"},
		"no types":                 {`[]`, "holds no instance types"},
		"no name":                  {`[` + strings.Replace(valid, `"name":"a"`, `"name":""`, 1) + `]`, `element 0 (): name: "" is not a label value`},
		"null":                     {`[null]`, `element 0 (no name): name: "" is not a label value`},
		"name of a wrong type":     {`[` + strings.Replace(valid, `"name":"a"`, `"name":7`, 1) + `]`, `element 0 (7): name: is a number, must be a string`},
		"twice the same":           {`[` + valid + `,` + valid + `]`, "element 1 (a): name: element 0 has the same"},
		"no architecture":          {`[` + strings.Replace(valid, `"amd64"`, `""`, 1) + `]`, `element 0 (a): architecture: "" is not a label value such as amd64`},
		"no system":                {`[` + strings.Replace(valid, `["linux"]`, `[]`, 1) + `]`, "element 0 (a): operatingSystems: empty"},
		"a bad system":             {`[` + strings.Replace(valid, `["linux"]`, `["l x"]`, 1) + `]`, `element 0 (a): operatingSystems[0]: "l x" is not`},
		"no memory":                {`[` + strings.Replace(valid, `,"memory":"1Gi"`, ``, 1) + `]`, "element 0 (a): resources.memory: missing or zero"},
		"memory is no quantity":    {`[` + strings.Replace(valid, `"1Gi"`, `"much"`, 1) + `]`, `element 0 (a): resources.memory: "much" is not a quantity such as 4 or 16Gi`},
		"negative cpu":             {`[` + strings.Replace(valid, `"cpu":1`, `"cpu":-1`, 1) + `]`, "element 0 (a): resources.cpu: -1 is negative"},
		"no offerings":             {`[` + strings.Replace(valid, oneOffering, `"offerings":[]`, 1) + `]`, "element 0 (a): offerings: empty"},
		"negative price":           {`[` + strings.Replace(valid, `0.5`, `-0.5`, 1) + `]`, "element 0 (a): offerings[0].price: -0.5 is negative"},
		"price is text":            {`[` + strings.Replace(valid, `0.5`, `"x"`, 1) + `]`, "element 0 (a): offerings.Price: is a string, must be a float64"},
		"the old form of offering": {`[` + strings.Replace(valid, oneOffering, `"offerings":[{"capacityType":"spot","zone":"z","price":1}]`, 1) + `]`, "element 0 (a): offerings[0].requirements: no entry for karpenter.sh/capacity-type"},
		"no zone":                  {`[` + strings.Replace(valid, `topology.kubernetes.io/zone`, `x`, 1) + `]`, "element 0 (a): offerings[0].requirements: no entry for topology.kubernetes.io/zone"},
		"two zones in one":         {`[` + strings.Replace(valid, `["z1"]`, `["z1","z2"]`, 1) + `]`, "element 0 (a): offerings[0].requirements[1]: topology.kubernetes.io/zone must be In with one value"},
		"a bad key":                {`[` + strings.Replace(valid, `karpenter.sh/capacity-type`, `a b`, 1) + `]`, `element 0 (a): offerings[0].requirements[0].key: "a b" is not a label key`},
		"a bad value":              {`[` + strings.Replace(valid, `"z1"`, `"z 1"`, 1) + `]`, `element 0 (a): offerings[0].requirements[1].values: "z 1" is not a label value`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "types.json")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := New(nil, Options{InstanceTypesFile: path, Now: time.Now})
			if err == nil {
				t.Fatal("New() accepted the file")
			}
			if want := "instance types file " + path + ": " + c.want; !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is\n\t%s\nwant one line that starts with\n\t%s", err, want)
			}
		})
	}
	if _, err := New(nil, Options{InstanceTypesFile: "/no/such/file", Now: time.Now}); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("a file that is not there: error %v, want one that names it", err)
	}
}
