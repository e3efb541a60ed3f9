package userdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	typeNodeConfig = "application/node.eks.aws"
	typeShell      = `text/x-shellscript; charset="us-ascii"`

	// boundary is between the parts. It grows until no part has it; boundaryMax is as long as
	// one may be.
	boundary    = "//"
	boundaryMax = 70
	// partsMax is how many parts of the user are read; more do not fit into user data.
	partsMax = 1000
)

// part is one document of a multipart message.
type part struct {
	header textproto.MIMEHeader
	body   []byte
}

func newPart(contentType, body string) part {
	return part{textproto.MIMEHeader{"Content-Type": {contentType}}, []byte(body)}
}

// al2023 returns the user's parts and a NodeConfig, which nodeadm merges: the last wins.
func al2023(n *Node) (string, error) {
	parts, err := customParts(n.Custom)
	if err != nil {
		return "", err
	}
	config, err := yaml.Marshal(n.nodeConfig())
	if err != nil {
		return "", fmt.Errorf("write NodeConfig: %w", err)
	}
	return message(append(parts, newPart(typeNodeConfig, "# Made by Dovetail\n"+string(config))))
}

// nodeConfig returns the document that nodeadm reads.
func (n *Node) nodeConfig() map[string]any {
	kubelet := map[string]any{}
	for key, value := range n.Kubelet.Fields {
		kubelet[key] = value
	}
	if _, set := kubelet["clusterDNS"]; !set && n.Cluster.DNS != "" {
		kubelet["clusterDNS"] = []string{n.Cluster.DNS}
	}
	kubelet["maxPods"] = n.Kubelet.MaxPods
	var taints []map[string]string
	for _, t := range n.taints() {
		taint := map[string]string{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			taint["value"] = t.Value
		}
		taints = append(taints, taint)
	}
	kubelet["registerWithTaints"] = taints
	cluster := map[string]any{"name": n.Cluster.Name, "apiServerEndpoint": n.Cluster.Endpoint, "certificateAuthority": n.Cluster.CA, "cidr": n.Cluster.CIDR}
	spec := map[string]any{
		"cluster": cluster,
		"kubelet": map[string]any{"config": kubelet, "flags": []string{fmt.Sprintf("--node-labels=%q", pairs(n.nodeLabels(), "="))}},
	}
	if n.raid() {
		spec["instance"] = map[string]any{"localStorage": map[string]any{"strategy": "RAID0"}}
	}
	return map[string]any{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
}

func (n *Node) raid() bool {
	return n.StorePolicy != nil && *n.StorePolicy == awsv1.InstanceStorePolicyRAID0
}

// al2 returns the user's parts and a script that runs the image's own bootstrap script.
func al2(n *Node) (string, error) {
	parts, err := customParts(n.Custom)
	if err != nil {
		return "", err
	}
	words := []string{"/etc/eks/bootstrap.sh", shell(n.Cluster.Name), "--apiserver-endpoint", shell(n.Cluster.Endpoint)}
	add := func(flag, value string) { words = append(words, flag, shell(value)) }
	if n.Cluster.CA != "" {
		add("--b64-cluster-ca", n.Cluster.CA)
	}
	if dns := n.dns(); dns != "" {
		if a, err := netip.ParseAddr(dns); err == nil && a.Is6() {
			words = append(words, "--ip-family", "ipv6")
		}
		add("--dns-cluster-ip", dns)
	}
	words = append(words, "--use-max-pods", "false")
	add("--kubelet-extra-args", strings.Join(n.kubeletArgs(), " "))
	if n.raid() {
		words = append(words, "--local-disks", "raid0")
	}
	script := "#!/bin/bash -xe\n" +
		"# Made by Dovetail\n" +
		"exec > >(tee -a /var/log/user-data.log | logger -t user-data -s 2> /dev/console) 2>&1\n" +
		strings.Join(words, " ") + "\n"
	return message(append(parts, newPart(typeShell, script)))
}

// shell returns a word that the shell takes as it is.
func shell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// customParts returns the documents of the user: those of a MIME message, or the one that
// the text is: a NodeConfig if it is a YAML map, or else a script.
func customParts(text string) ([]part, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, nil
	case strings.HasPrefix(text, "MIME-Version:"), strings.HasPrefix(text, "Content-Type:"):
		parts, err := readMessage(text)
		if err != nil {
			return nil, fmt.Errorf("spec.userData: not a MIME message: %w", err)
		}
		return parts, nil
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err == nil && config != nil {
		return []part{newPart(typeNodeConfig, text+"\n")}, nil
	}
	return []part{newPart(typeShell, text+"\n")}, nil
}

func readMessage(text string) ([]part, error) {
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(media, "multipart/") {
		body, err := io.ReadAll(m.Body)
		return []part{{textproto.MIMEHeader{"Content-Type": {m.Header.Get("Content-Type")}}, body}}, err
	}
	var parts []part
	r := multipart.NewReader(m.Body, params["boundary"])
	for range partsMax {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{p.Header, body})
	}
	return nil, fmt.Errorf("more than %d parts", partsMax)
}

// message returns a MIME message of the parts.
func message(parts []part) (string, error) {
	between := boundary
	for slices.ContainsFunc(parts, func(p part) bool { return bytes.Contains(p.body, []byte("--"+between)) }) {
		if between += "/"; len(between) > boundaryMax {
			return "", errors.New("spec.userData: a line of dashes and slashes is too long: it could be taken for a MIME boundary")
		}
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(between); err != nil {
		return "", fmt.Errorf("spec.userData: %w", err)
	}
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", between)
	for _, p := range parts {
		section, err := w.CreatePart(p.header)
		if err == nil {
			_, err = section.Write(p.body)
		}
		if err != nil {
			return "", fmt.Errorf("write user data: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("write user data: %w", err)
	}
	return strings.ReplaceAll(out.String(), "\r", ""), nil
}
