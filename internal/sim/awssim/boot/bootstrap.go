package boot

import (
	"fmt"
	"slices"
	"strings"
)

const bootstrapScript = "/etc/eks/bootstrap.sh"

// readBootstrap reads user data as AL2 does: shell scripts, of which one calls the
// bootstrap script.
func readBootstrap(userData []byte, m Instance) (*config, error) {
	parts, err := mimeParts(userData)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, p := range parts {
		if p.kind != "" && p.kind != "text/x-shellscript" {
			continue
		}
		for _, line := range logicalLines(string(p.content)) {
			words, err := shellWords(line)
			if err != nil {
				return nil, fmt.Errorf("user data: %w", err)
			}
			if i := slices.Index(words, bootstrapScript); i >= 0 {
				args = words[i+1:]
			}
		}
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("the user data does not call %s with a cluster", bootstrapScript)
	}
	c := newConfig(m)
	return c, c.bootstrap(args)
}

// bootstrap applies the script's arguments.
func (c *config) bootstrap(args []string) error {
	useMaxPods, kubelet := true, ""
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "--") {
			c.cluster = args[i]
			continue
		}
		if i+1 == len(args) {
			return fmt.Errorf("%s: %s has no value", bootstrapScript, args[i])
		}
		name, value := args[i], args[i+1]
		i++
		switch name {
		case "--apiserver-endpoint":
			c.endpoint = value
		case "--b64-cluster-ca":
			c.authority = value
		case "--use-max-pods":
			useMaxPods = value == "true"
		case "--kubelet-extra-args":
			kubelet = value
		case "--local-disks":
			c.raid0 = value == "raid0"
		case "--dns-cluster-ip", "--ip-family", "--service-ipv6-cidr", "--container-runtime", "--pause-container-account", "--cluster-id":
		default:
			return fmt.Errorf("%s: unknown argument %s", bootstrapScript, name)
		}
	}
	if !useMaxPods {
		c.maxPods = 110 // the kubelet's own
	}
	words, err := shellWords(kubelet)
	if err != nil {
		return fmt.Errorf("--kubelet-extra-args: %w", err)
	}
	return c.flags(words)
}

// logicalLines joins lines that end in a backslash, and leaves comments out.
func logicalLines(script string) []string {
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(script, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// shellWords splits as a shell does, with both kinds of quotes and no expansions.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("unterminated %c in %q", quote, line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
