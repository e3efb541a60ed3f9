package world

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// TestNothingIsChangedInPlace: an object of the server's is for good what it was when it was
// written, though the one in its place shares with it what did not change.
func TestNothingIsChangedInPlace(t *testing.T) {
	t.Parallel()
	written := map[client.Object]string{}
	listens := false
	watch := &Mutant{Create: func(w *World, _ client.Object) { // which changes nothing
		if listens {
			return
		}
		listens = true
		w.api.Watch(func(_ string, _, is client.Object) {
			if is != nil {
				written[is] = mustJSON(t, is)
			}
		})
	}}
	Run(*from, Options{Stormy: 30 * time.Minute, Nodes: 20, Mutant: watch})
	if len(written) < 1000 {
		t.Fatalf("only %d writes were observed", len(written))
	}
	for o, then := range written {
		if diff := cmp.Diff(then, mustJSON(t, o)); diff != "" {
			t.Fatalf("%s %s has changed (-then +now):\n%s", cluster.KindOf(o), o.GetName(), diff)
		}
	}
}

func mustJSON(t *testing.T, o client.Object) string {
	t.Helper()
	data, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
