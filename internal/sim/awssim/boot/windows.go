package boot

import (
	"fmt"
	"strings"
)

const windowsScript = "Start-EKSBootstrap.ps1"

// readPowershell reads user data as the Windows images do: a powershell block, of which
// one line calls the bootstrap script.
func readPowershell(userData []byte, m Instance) (*config, error) {
	_, block, ok := strings.Cut(string(userData), "<powershell>")
	block, _, closed := strings.Cut(block, "</powershell>")
	if !ok || !closed {
		return nil, fmt.Errorf("the user data has no <powershell> block")
	}
	// The script is called by a path that is an expression, or by a variable that holds it.
	variable := ""
	for line := range strings.SplitSeq(block, "\n") {
		line = strings.TrimSpace(line)
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(line, "[string]$") || ok && strings.HasPrefix(line, "$") {
			if strings.Contains(value, windowsScript) {
				variable = strings.TrimSpace(strings.TrimPrefix(name, "[string]"))
				continue
			}
		}
		at := strings.Index(line, "-EKSClusterName")
		if at < 0 || !strings.Contains(line[:at], windowsScript) && (variable == "" || !strings.Contains(line[:at], variable)) {
			continue
		}
		words, err := powershellWords(line[at:])
		if err != nil {
			return nil, fmt.Errorf("user data: %w", err)
		}
		c := newConfig(m)
		c.maxPods = 110
		if err := c.startEKS(words); err != nil {
			return nil, err
		}
		c.reservedFor = c.maxPods
		if c.podsPerCore > 0 {
			c.reservedFor = min(c.maxPods, c.podsPerCore*m.VCPUs)
		}
		return c, nil
	}
	return nil, fmt.Errorf("the user data does not call %s with a cluster", windowsScript)
}

// powershellWords splits a command line: quotes as a shell's, no escapes.
func powershellWords(line string) ([]string, error) {
	return shellWords(strings.ReplaceAll(line, `\`, `\\`))
}

func (c *config) startEKS(words []string) error {
	for i := 0; i < len(words); i++ {
		name, value := words[i], ""
		if i+1 < len(words) && (!strings.HasPrefix(words[i+1], "-") || strings.HasPrefix(words[i+1], "--")) {
			i++
			value = words[i]
		}
		switch name {
		case "-EKSClusterName":
			c.cluster = value
		case "-APIServerEndpoint":
			c.endpoint = value
		case "-Base64ClusterCA":
			c.authority = value
		case "-KubeletExtraArgs":
			args, err := shellWords(value)
			if err != nil {
				return fmt.Errorf("-KubeletExtraArgs: %w", err)
			}
			if err := c.flags(args); err != nil {
				return err
			}
		case "-DNSClusterIP", "-ServiceCIDR", "-ContainerRuntime":
		default:
			if strings.HasPrefix(name, "-") {
				return fmt.Errorf("%s: a parameter cannot be found that matches parameter name '%s'", windowsScript, name[1:])
			}
		}
	}
	return nil
}
