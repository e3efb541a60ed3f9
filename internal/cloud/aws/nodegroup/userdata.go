package nodegroup

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// ownUserData returns user data without what makes an instance join its cluster, which the controller writes
// itself: the call of EKS' bootstrap script, the cluster in a NodeConfig, and Bottlerocket's settings for it. notes
// say what was left out and may be missed.
func ownUserData(data string) (own string, notes []string) {
	switch trimmed := strings.TrimSpace(data); {
	case trimmed == "":
		return "", nil
	case strings.HasPrefix(trimmed, "MIME-Version:") || strings.HasPrefix(strings.ToLower(trimmed), "content-type: multipart"):
		return ownParts(data)
	case strings.Contains(trimmed, "[settings.") || strings.HasPrefix(trimmed, "[settings]"):
		return ownSettings(data), nil
	default:
		return ownPart("", data)
	}
}

// ownParts does so for each part of a MIME message.
func ownParts(data string) (own string, notes []string) {
	whole := []string{"user data: its MIME parts cannot be read, and it is kept whole; remove what joins the cluster"}
	message, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(data, " \n\r\t")))
	if err != nil {
		return data, whole
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return data, whole
	}
	var out strings.Builder
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n", params["boundary"])
	parts, kept := multipart.NewReader(message.Body, params["boundary"]), 0
	for {
		part, err := parts.NextPart()
		if err == io.EOF { //nolint:errorlint // the package returns it as it is
			break
		}
		if err != nil {
			return data, whole
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return data, whole
		}
		kind := part.Header.Get("Content-Type")
		text, said := ownPart(kind, string(body))
		notes = append(notes, said...)
		if strings.TrimSpace(text) != "" {
			kept++
			fmt.Fprintf(&out, "\n--%s\nContent-Type: %s\n\n%s\n", params["boundary"], kind, strings.Trim(text, "\n"))
		}
	}
	if kept == 0 {
		return "", notes
	}
	fmt.Fprintf(&out, "\n--%s--\n", params["boundary"])
	return out.String(), notes
}

var bootstrap = regexp.MustCompile(`(?m)^[^#\n]*/etc/eks/bootstrap\.sh(?:[^\n]*\\\n)*[^\n]*\n?`)

// ownPart does so for one part. A script of which nothing is left but its beginning is empty.
func ownPart(kind, body string) (own string, notes []string) {
	if strings.Contains(kind, "node.eks.aws") || strings.Contains(body, "apiVersion: node.eks.aws/") {
		return ownNodeConfig(body)
	}
	call := bootstrap.FindString(body)
	if call == "" {
		return body, nil
	}
	if strings.Contains(call, "--kubelet-extra-args") || strings.Contains(call, "--use-max-pods") {
		notes = append(notes, "user data: the call of bootstrap.sh is left out; put its arguments into spec.kubelet: "+strings.Join(strings.Fields(strings.ReplaceAll(call, "\\", " ")), " "))
	}
	rest := bootstrap.ReplaceAllString(body, "")
	for l := range strings.SplitSeq(rest, "\n") {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "set ") {
			return rest, notes
		}
	}
	return "", notes
}

// ownNodeConfig leaves the cluster out of a NodeConfig.
func ownNodeConfig(body string) (own string, notes []string) {
	var config map[string]any
	if err := yaml.Unmarshal([]byte(body), &config); err != nil {
		return body, []string{"user data: its NodeConfig cannot be read, and is kept whole"}
	}
	spec, _ := config["spec"].(map[string]any)
	delete(spec, "cluster")
	if len(spec) == 0 {
		return "", nil
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return body, nil
	}
	return string(text), nil
}

// ownSettings leaves out of Bottlerocket's settings those that name the cluster.
func ownSettings(data string) string {
	var kept []string
	for l := range strings.SplitSeq(data, "\n") {
		key, _, _ := strings.Cut(l, "=")
		switch strings.Trim(strings.TrimPrefix(strings.TrimSpace(key), "settings.kubernetes."), ` "`) {
		case "api-server", "cluster-certificate", "cluster-name", "cluster-dns-ip":
		default:
			kept = append(kept, l)
		}
	}
	text := strings.Join(kept, "\n")
	if strings.TrimSpace(strings.ReplaceAll(text, "[settings.kubernetes]", "")) == "" {
		return ""
	}
	return text
}
