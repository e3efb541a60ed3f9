package home

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteCredentials makes the certificates at the first start, and at every start the
// kubeconfigs of all clients for an API server at the given URL.
func (h *Home) WriteCredentials(server string, now time.Time) error {
	if err := h.ensurePKI(now); err != nil {
		return err
	}
	for _, id := range identities {
		b, err := h.kubeconfig(id, server)
		if err != nil {
			return fmt.Errorf("make kubeconfig of %s: %w", id.name, err)
		}
		if err := writeFile(h.ClientConfig(id.file), b); err != nil {
			return err
		}
	}
	return nil
}

// ClientConfig returns the path of the kubeconfig of one client: admin,
// kube-controller-manager, kube-scheduler or kwok.
func (h *Home) ClientConfig(name string) string {
	if name == identities[0].file {
		return Kubeconfig(h.Dir)
	}
	return h.Path("conf", name+".kubeconfig")
}

func (h *Home) kubeconfig(id identity, server string) ([]byte, error) {
	var pem [3][]byte
	for i, name := range []string{"ca.crt", id.file + ".crt", id.file + ".key"} {
		b, err := os.ReadFile(h.Path("pki", name))
		if err != nil {
			return nil, err
		}
		pem[i] = b
	}
	const name = "devcluster"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: pem[0]}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pem[1], ClientKeyData: pem[2]}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return clientcmd.Write(*c)
}
