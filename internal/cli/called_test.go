package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCalledAsKarpenterIs cannot be parallel: it sets the environment.
func TestCalledAsKarpenterIs(t *testing.T) {
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "CLUSTER_NAME": "prod", "INTERRUPTION_QUEUE": "prod"}
	for name, c := range map[string]struct {
		env  map[string]string
		args string
		want string // "error": a mistake in the call
	}{
		"in a pod of Karpenter's chart the controller runs": {pod, "", "controller"},
		"with its flags":                         {pod, "-log-level debug", "controller --log-level debug"},
		"a command is a command there too":       {pod, "version", "version"},
		"and help is help":                       {pod, "--help", "--help"},
		"and so is the version":                  {pod, "--version", "--version"},
		"elsewhere nothing begins by itself":     {map[string]string{"CLUSTER_NAME": "prod"}, "", "error"},
		"without all that there is help":         {nil, "", ""},
		"flags without a command are a mistake":  {nil, "--log-level=debug", "--log-level=debug"},
		"one dash is two":                        {nil, "controller -log-level=debug -batch-idle-duration 2s", "controller --log-level=debug --batch-idle-duration 2s"},
		"a shorthand stays one":                  {nil, "controller -h", "controller -h"},
		"a boolean flag needs no value":          {nil, "controller --enable-profiling --log-level debug", "controller --enable-profiling --log-level debug"},
		"and may have one":                       {nil, "controller -enable-profiling=false", "controller --enable-profiling=false"},
		"or a word of its own":                   {nil, "controller --enable-profiling false", "controller --enable-profiling=false"},
		"a value may look like a flag":           {nil, "controller --memory-limit -1 --log-level -metrics-port", "controller --memory-limit -1 --log-level -metrics-port"},
		"what nobody knows is left to refuse":    {nil, "controller -metric-port 1", "controller -metric-port 1"},
		"after two dashes there are no flags":    {nil, "controller -- -log-level", "controller -- -log-level"},
		"other commands are read as they always": {nil, "explain -o json", "explain -o json"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"KUBERNETES_SERVICE_HOST", "CLUSTER_NAME", "INTERRUPTION_QUEUE", "KARPENTER_SERVICE"} {
				t.Setenv(variable, c.env[variable])
			}
			got, err := asCalled(newController(), strings.Fields(c.args))
			var usage *usageError
			if errors.As(err, &usage) {
				got = []string{"error"}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); len(got) != len(strings.Fields(c.want)) || len(got) > 0 && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCalledByAnotherName runs the program under the names of its links.
func TestCalledByAnotherName(t *testing.T) {
	t.Parallel()
	for program, c := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"dovetail":                               {[]string{"explain"}, 2, "(see dovetail explain --help)"},
		"/usr/local/bin/kubectl-dovetail":        {[]string{"explain"}, 2, "(see kubectl dovetail explain --help)"},
		"/usr/bin/karpenter":                     {[]string{"simulate", "--help"}, 0, "karpenter simulate [flags]"},
		"./kubectl-karpenter":                    {[]string{"--help"}, 0, "kubectl karpenter [command]"},
		"/home/me/bin/kubectl_complete-dovetail": {[]string{"expl"}, 0, "explain\tSay why"},
		"anything":                               {[]string{"--help"}, 0, "dovetail [command]"},
	} {
		var out bytes.Buffer
		if status := MainAs(t.Context(), program, c.args, &out, &out); status != c.status || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s %v: status %d, want %d and %q; it says\n%s", program, c.args, status, c.status, c.says, &out)
		}
	}
}
