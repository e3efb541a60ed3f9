package checkup

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
)

// Status says how a check ended.
type Status string

// How checks end.
const (
	OK Status = "ok"
	// Warning: it works, but not as well as it could.
	Warning Status = "warning"
	// Failed: the controller will not work.
	Failed Status = "failed"
	// Skipped: it could not be found out, since another check failed or nobody may look.
	Skipped Status = "skipped"
)

// Finding is what one check has found.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	// Remedy is what to do; empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: OK, Found: fmt.Sprintf(format, args...)}
}

// because returns a finding about an error of AWS. Remedies are by its code; the one of "" is
// for all others.
func because(check string, err error, remedies map[string]string) Finding {
	code, text := explain(err)
	f := Finding{Check: check, Status: Failed, Found: text, Remedy: remedies[code]}
	if isDenied(code) {
		f.Remedy = "give the caller the policies of deploy/aws (docs/reference/iam.md)"
	}
	if f.Remedy == "" {
		f.Remedy = remedies[""]
	}
	return f
}

// explain returns AWS' code of an error and what it says, without what changes from call
// to call.
func explain(err error) (code, text string) {
	var api smithy.APIError
	var dial *net.OpError
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &api):
		return api.ErrorCode(), api.ErrorCode() + ": " + api.ErrorMessage()
	case errors.As(err, &dial):
		return "", "no connection: " + dial.Error()
	default:
		return "", err.Error()
	}
}

func isDenied(code string) bool {
	return slices.Contains([]string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}, code)
}

// count returns "3 subnets".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func list(names []string) string { return strings.Join(names, ", ") }
