package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// asNamed returns by what name the program is shown to whoever called it, and the arguments. Under
// kubectl-dovetail and kubectl-karpenter it is a plugin of kubectl, which asks
// kubectl_complete-dovetail what would complete a line.
func asNamed(program string, args []string) (string, []string) {
	switch name := strings.TrimSuffix(filepath.Base(program), ".exe"); name {
	case "karpenter":
		return name, args
	case "kubectl-dovetail", "kubectl-karpenter":
		return strings.Replace(name, "-", " ", 1), args
	case "kubectl_complete-dovetail", "kubectl_complete-karpenter":
		return "kubectl " + strings.TrimPrefix(name, "kubectl_complete-"), append([]string{cobra.ShellCompRequestCmd}, args...)
	default:
		return "dovetail", args
	}
}

// asCalled returns the arguments as cobra reads them. Whoever replaces Karpenter's image by ours
// calls us as Karpenter is called: without a command, and with flags as Go's own flag package reads
// them, -name being --name. A boolean flag may have its value as a word of its own besides.
func asCalled(controller *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") && !slices.Contains([]string{"-h", "--help", "--version"}, args[0]) {
		inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
		forKarpenter := os.Getenv("CLUSTER_NAME") != "" || os.Getenv("KARPENTER_SERVICE") != ""
		switch {
		case inPod && (forKarpenter || len(args) > 0):
			args = append([]string{controller.Name()}, args...)
		case forKarpenter && len(args) == 0: // an engineer's shell, perhaps: nothing is begun there
			return nil, &usageError{errors.New("no command is given, and CLUSTER_NAME or KARPENTER_SERVICE is set; dovetail controller runs the controller"), ""}
		}
	}
	if len(args) == 0 || args[0] != controller.Name() {
		return args, nil
	}
	return append([]string{controller.Name()}, asFlags(controller, args[1:])...), nil
}

// asFlags returns a command's arguments with two dashes before each flag's name, and a boolean
// flag's value in one word with it.
func asFlags(cmd *cobra.Command, args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			return append(out, args[i:]...)
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := cmd.Flags().Lookup(name)
		if flag == nil || !strings.HasPrefix(word, "-") {
			out = append(out, word)
			continue
		}
		word = "--" + strings.TrimLeft(word, "-")
		if flag.Value.Type() == "bool" && !hasValue && i+1 < len(args) && (args[i+1] == "true" || args[i+1] == "false") {
			i++
			word += "=" + args[i]
		} else if flag.Value.Type() != "bool" && !hasValue && i+1 < len(args) {
			i++
			out = append(out, word)
			word = args[i] // a value, whatever it begins with
		}
		out = append(out, word)
	}
	return out
}
