package cli_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cli"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

func TestViewCommandsAndTheirExitStatuses(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general unready=it_is_being_deleted\nnode a pool=general type=four\nrunning web on=a cpu=1 app=web\npod huge cpu=64 app=huge")
	if err != nil {
		t.Fatal(err)
	}
	latest := &live.Latest{}
	latest.Provisioned(snap, nil, nil)
	mux := http.NewServeMux()
	views := &live.Views{Latest: latest, Now: story.Now}
	mux.Handle(live.Path+"/", views.Handler())
	mux.Handle("/", web.Handler(views, nil))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this replica is on standby", http.StatusMisdirectedRequest)
	}))
	t.Cleanup(standby.Close)
	older := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(older.Close)
	before := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"pods":7}`)) }))
	t.Cleanup(before.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	_ = closed.Close()
	at := "--address=" + srv.URL
	for line, want := range map[string]struct {
		status int
		says   string
	}{
		"status " + at:                                            {0, "needs a look"},
		"status --exit-code " + at:                                {3, "nothing is launched from it"},
		"nodes " + at:                                             {0, "four"},
		"nodes a " + at:                                           {0, "WORKLOAD"},
		"nodes node/a " + at:                                      {0, "WORKLOAD"},
		"nodes b " + at:                                           {4, "there is no such subject"},
		"pending " + at:                                           {0, "1 pods ask"},
		"pending -A " + at:                                        {0, "1 pods ask"},
		"pending -n default " + at:                                {0, "1 pods ask"},
		"pending -n shop " + at:                                   {0, "No pod asks for a node.\nonly what has namespace shop is shown"},
		"pending -n shop -A " + at:                                {2, "none of the others can be"},
		"pending -l app=huge " + at:                               {0, "1 pods ask"},
		"pending -l app!=huge " + at:                              {0, "No pod asks for a node.\nonly what has labels app!=huge is shown"},
		"pending -l app=(( " + at:                                 {2, "--selector: "},
		"pending -n shop --address " + before.URL:                 {1, "the controller is of an older version"},
		"nodes -l karpenter.sh/nodepool=general " + at:            {0, "four"},
		"nodes -l !karpenter.sh/nodepool " + at:                   {0, "There are no nodes."},
		"nodes a -l app " + at:                                    {2, "a node is named"},
		"nodes -n shop " + at:                                     {2, "unknown shorthand flag"},
		"nodes -o jsonl " + at:                                    {0, `{"name":"a"`},
		"status -o jsonl " + at:                                   {0, `{"format":"dovetail-view/1","kind":"Overview"`},
		"pools " + at:                                             {0, "MAY GO NOW"},
		"pools general -o wide " + at:                             {0, "POLICY"},
		"pools nodepool/general " + at:                            {0, "general"},
		"pools other " + at:                                       {4, "there are general"},
		"blockers " + at:                                          {0, "per hour is for nodes"},
		"blockers -n shop " + at:                                  {0, "only what has namespace shop is shown"},
		"blockers -l karpenter.sh/nodepool=x " + at:               {0, "only what has labels karpenter.sh/nodepool=x is shown"},
		"blockers -n shop -A " + at:                               {2, "none of the others can be"},
		"offerings -l karpenter.sh/capacity-type=spot " + at:      {0, "0 of 0 offerings"},
		"offerings -l karpenter.sh/capacity-type=on-demand " + at: {0, "0 of 1 offerings"},
		"offerings -n shop " + at:                                 {2, "unknown shorthand flag"},
		"cost -n shop " + at:                                      {0, "(others)"},
		"cost --by workload -l app=web " + at:                     {0, "default/web"},
		"cost -l app=(( " + at:                                    {2, "--selector: "},
		"next -n shop " + at:                                      {0, "Nothing is to be done until the cluster changes."},
		"next -n default -l app=huge " + at:                       {0, "1 pod"},
		"next -l app=huge " + at:                                  {0, "Nothing is to be done until the cluster changes."},
		"next -n shop --address " + before.URL:                    {1, "the controller is of an older version"},
		"offerings " + at:                                         {0, "0 of 1 offerings"},
		"cost " + at:                                              {0, "(idle)"},
		"cost --by label:app " + at:                               {0, "web"},
		"cost --by nonsense " + at:                                {2, "must be namespace"},
		"next " + at:                                              {0, "decided about"},
		"next -o yaml " + at:                                      {0, "kind: Next"},
		"next -o nonsense " + at:                                  {2, "must be table, wide, json, yaml"},
		"next x " + at:                                            {2, "x"},
		"ui " + at:                                                {0, srv.URL + "/"},
		"status --address " + nobody:                              {5, "connection refused"},
		"status --address " + standby.URL:                         {5, "on standby"},
		"status --address " + older.URL:                           {5, "must be the debug port"},
		"status --kubeconfig /there/is/none --controller-namespace some": {5, "/there/is/none"},
	} {
		var out strings.Builder
		if got := cli.Main(t.Context(), strings.Fields(line), &out, &out); got != want.status || !strings.Contains(out.String(), want.says) {
			t.Errorf("dovetail %s: status %d, want %d and %q:\n%s", line, got, want.status, want.says, &out)
		}
	}
	var out, errs strings.Builder
	var v view.Cost
	if cli.Main(t.Context(), []string{"cost", "--by=workload", "-o=json", at}, &out, &errs) != 0 || json.Unmarshal([]byte(out.String()), &v) != nil || v.Format != view.Format || v.By != view.ByWorkload {
		t.Errorf("%s%s", &out, &errs)
	}
}
