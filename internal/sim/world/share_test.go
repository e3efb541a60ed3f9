package world

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/redact"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// sharedStorm is how long a storm lasts with -short.
const sharedStorm = 5 * time.Minute

// TestSharedDecisionsAreMadeAgain redacts every decision of several seeds, as dovetail share does: from the file the
// same plan is made again, it is the plan of the true decision up to names, and no name is left.
func TestSharedDecisionsAreMadeAgain(t *testing.T) {
	t.Parallel()
	n, o := *seeds, options()
	if testing.Short() || testkit.Raced {
		n, o.Stormy = 1, min(o.Stormy, sharedStorm)
	}
	for s := *from; s < *from+n; s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			o := o
			o.Decisions = t.TempDir()
			if r := Run(s, o); r.Violation != "" {
				t.Skip("TestSeeds reports what is wrong with the seed")
			}
			file, err := journal.Read(o.Decisions)
			if err != nil {
				t.Fatal(err)
			}
			shared := 0
			for i := range file.Decisions {
				if !file.Decisions[i].NoSnapshot {
					share(t, &file.Decisions[i])
					shared++
				}
			}
			t.Logf("%d of %d decisions shared", shared, len(file.Decisions))
			if shared == 0 {
				t.Error("no decision has a snapshot")
			}
		})
	}
}

func share(t *testing.T, e *journal.Entry) {
	t.Helper()
	d, err := e.Decision()
	if err != nil {
		t.Fatal(err)
	}
	r, err := redact.Decision(d)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Same || !r.Remade {
		t.Errorf("decision %s: same %v, remade %v:\n%s", e.ID, r.Same, r.Remade, strings.Join(r.Differences, "\n"))
		return
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range namesIn(d.Snapshot) {
		if bytes.Contains(text, []byte(`"`+name+`"`)) {
			t.Errorf("decision %s: %q is still in it", e.ID, name)
		}
	}
	var written bytes.Buffer
	if err := journal.WriteShared(&written, []journal.Shared{{Head: e.Head, Decision: r.Decision}}); err != nil {
		t.Fatal(err)
	}
	read, err := journal.ReadFrom(&written, "shared")
	if err != nil || len(read.Decisions) != 1 || len(read.Notes) > 0 {
		t.Fatal(err, read)
	}
	again, err := read.Decisions[0].Decision()
	if err != nil {
		t.Fatal(err)
	}
	if redone := again.Redo(); !record.SamePlan(again, redone) {
		t.Errorf("decision %s from its file is another:\n%s", e.ID, strings.Join(record.Differences(again, redone), "\n"))
	}
}

// namesIn returns what the objects of a world are called. Its NodePools have names that redacted ones have, too.
func namesIn(s *cluster.Snapshot) (names []string) {
	for i := range s.Pending {
		names = append(names, s.Pending[i].Name, s.Pending[i].Namespace, s.Pending[i].UID)
	}
	for i := range s.Nodes {
		names = append(names, s.Nodes[i].Name, s.Nodes[i].Claim)
		for k := range s.Nodes[i].Reschedulable {
			names = append(names, s.Nodes[i].Reschedulable[k].Name, s.Nodes[i].Reschedulable[k].UID)
		}
	}
	return names
}
