package userdata

import (
	"errors"
	"strings"
)

// windows returns a PowerShell script: the user's, and then the image's own bootstrap script.
func windows(n *Node) (string, error) {
	custom := strings.TrimSpace(n.Custom)
	if strings.Contains(strings.ToLower(custom), "powershell>") {
		return "", errors.New("spec.userData: the tags <powershell> and </powershell> are put around it; leave them out")
	}
	var out strings.Builder
	out.WriteString("<powershell>\n")
	if custom != "" {
		out.WriteString(custom + "\n")
	}
	out.WriteString("# Made by Dovetail\n")
	out.WriteString(`& "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"`)
	args := [][2]string{
		{"EKSClusterName", n.Cluster.Name},
		{"APIServerEndpoint", n.Cluster.Endpoint},
		{"Base64ClusterCA", n.Cluster.CA},
		{"KubeletExtraArgs", strings.Join(n.kubeletArgs(), " ")},
		{"DNSClusterIP", n.dns()},
	}
	for _, a := range args {
		if a[1] != "" {
			out.WriteString(" -" + a[0] + " '" + strings.ReplaceAll(a[1], "'", "''") + "'")
		}
	}
	out.WriteString("\n</powershell>\n")
	return out.String(), nil
}
