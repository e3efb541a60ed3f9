package operator

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
)

func TestAReconcilerIsQuietAboutAnAPIServerThatIsAway(t *testing.T) {
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
		log := logr.FromSlogHandler(quietHandler(slog.NewTextHandler(&out, nil)))
		log.Error(c.err, c.message)
		if said := strings.Contains(out.String(), c.message); said != c.said {
			t.Errorf("%s: said %v, want %v", name, said, c.said)
		}
	}
}
