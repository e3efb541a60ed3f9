package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cli"
	"github.com/dovetail-sh/dovetail/internal/view"
)

func TestDiffAndWhatIfAndTheirExitStatuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool, err := os.ReadFile("../../examples/kwok/1-nodepool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := os.ReadFile("../../examples/kwok/3-refused.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	now := "--snapshot=" + file("now.yaml", string(pool)+"\n---\n"+string(pods)+webPod)
	same := file("same.yaml", string(pool))
	less := file("less.yaml", strings.Replace(string(pool), "cpu: 1000", "cpu: 0", 1))
	for line, want := range map[string]struct {
		status int
		says   string
	}{
		"diff -f " + less + " " + now:             {0, "spec.limits.cpu: 1k → 0"},
		"diff --exit-code -f " + less + " " + now: {3, "beside leaving it alone: saves"},
		"diff " + now: {2, "give the changed NodePools with -f"},
		"diff -f " + filepath.Join(dir, "gone") + " " + now:    {1, "no such file"},
		"diff -o nonsense -f " + same + " " + now:              {2, "must be table, wide, json, yaml"},
		"diff x -f " + same + " " + now:                        {2, "x"},
		"whatif " + now:                                        {2, "say what is to be different"},
		"whatif --spot=80% " + now:                             {0, "up to 80 % of each workload's pods"},
		"whatif --spot=180% " + now:                            {2, "it must be 0% to 100%"},
		"whatif --policy=WhenEmpty -o yaml " + now:             {0, "kind: WhatIf"},
		"whatif --policy=Sometimes " + now:                     {1, "must be WhenEmpty"},
		"whatif --pool=other.limits.cpu=1 " + now:              {1, "there are general"},
		"whatif --pool=general.limits.cpu=0 -o wide " + now:    {0, "the change"},
		"whatif --without-type=* " + now:                       {0, "NotIn"},
		"whatif --policy=WhenEmpty --snapshot=/there/is/none":  {1, "/there/is/none"},
		"whatif --policy=WhenEmpty --kubeconfig=/there/is/non": {1, "/there/is/non"},
	} {
		var out strings.Builder
		if got := cli.Main(t.Context(), strings.Fields(line), &out, &out); got != want.status || !strings.Contains(out.String(), want.says) {
			t.Errorf("dovetail %s: status %d, want %d and %q:\n%s", line, got, want.status, want.says, &out)
		}
	}
	var out, errs strings.Builder
	var v view.WhatIf
	if cli.Main(t.Context(), []string{"diff", "-f", less, "-o=json", now}, &out, &errs) != 0 || json.Unmarshal([]byte(out.String()), &v) != nil ||
		v.Format != view.Format || v.Kind != "WhatIf" || v.Left.Nodes != 1 || v.Then.Nodes != 0 {
		t.Errorf("%s%s", &out, &errs)
	}
}

const webPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers: [{name: web, image: none, resources: {requests: {cpu: "1"}}}]
`
