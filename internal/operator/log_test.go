package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
)

func TestAReconcilerDoesNotLogAnAPIServerThatIsAway(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, c := range map[string]struct {
		message string
		err     error
		said    bool
	}{
		"it is away":           {"Reconciler error", fmt.Errorf("patch claim: %w", refused), false},
		"it says no":           {"Reconciler error", errors.New("forbidden"), true},
		"somebody else is":     {"could not collect", refused, true},
		"there is no error":    {"Reconciler error", nil, true},
		"a lease is not there": {"Error retrieving lease lock", refused, false},
	} {
		var out bytes.Buffer
		log := logr.FromSlogHandler(dedupHandler(slog.NewTextHandler(&out, nil)))
		log.Error(c.err, c.message)
		if said := strings.Contains(out.String(), c.message); said != c.said {
			t.Errorf("%s: said %v, want %v", name, said, c.said)
		}
	}
}

// TestBodiesAreNeverLogged: what client-go says at its most talkative holds whole objects,
// with all that their owners wrote into them.
func TestBodiesAreNeverLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := logr.FromSlogHandler(dedupHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.V(4).Info("GET https://…")
	log.V(8).Info("Response Body", "body", "a secret")
	if got := out.String(); !strings.Contains(got, "GET https") || strings.Contains(got, "a secret") {
		t.Errorf("the log of somebody who debugs is\n%s", got)
	}
}

// TestALineHasOneMessage: of two keys alike, readers of JSON take the last.
func TestALineHasOneMessage(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: karpenterKeys})).Info("deleted claim", "message", "why")
	var line map[string]string
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["message"] != "deleted claim" || line["detail"] != "why" {
		t.Errorf("the line is %s", out.String())
	}
}
