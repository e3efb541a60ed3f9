package cloud

import (
	"context"
	"errors"
)

// ErrRebootRefused is wrapped by what a Rebooter returns if asking again would not help: it may not
// reboot this instance, or can't.
var ErrRebootRefused = errors.New("the instance cannot be rebooted")

// Rebooter is a provider that can restart an instance which keeps its Node, its disks and its
// addresses.
type Rebooter interface {
	// Reboot asks for a restart and does not wait for it. Nil: it was accepted. ErrNotFound: there
	// is no such instance. ErrRebootRefused: do not ask again. Any other error: ask again, with the
	// same request.
	Reboot(ctx context.Context, request RebootRequest) error
}

// RebootRequest asks for one restart of one instance.
type RebootRequest struct {
	// Token identifies the request for good: repeated, it is the same restart.
	Token string
	// InstanceID is the providerID of Node, which is the Node's name.
	InstanceID, Node string
}
