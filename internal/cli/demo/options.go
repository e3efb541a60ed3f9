package demo

import (
	"io"
	"time"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

// Values of Options.Provider.
const providerAWS, providerKWOK = "aws", "kwok"

// Options are what Run needs.
type Options struct {
	// Out gets the story, one line at a time.
	Out io.Writer
	Now func() time.Time
	// Exit ends the demo after the story. Otherwise everything runs on until the context ends.
	Exit bool
	// Provider is who makes the instances: aws, in a simulated account, or kwok.
	Provider string
	// Pods is the size of the scale-up.
	Pods int
	// Dir keeps the cluster for another time. If it is empty, a temporary directory is
	// used, and removed at the end unless a step did not hold.
	Dir string
	// Devcluster is the path of the binary; empty: devcluster beside this executable.
	Devcluster string
	// Settings are the controller's. Its ports and lease are replaced by the demo's own.
	Settings        operator.Settings
	Version, Commit string

	keep bool // Dir was given
}
