package operator

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
)

// ClusterAPISettings are those that only the provider clusterapi reads.
type ClusterAPISettings struct {
	ClusterAPIKubeconfig               string
	ClusterAPIURL                      string
	ClusterAPIToken                    string
	ClusterAPICertificateAuthorityData string
	ClusterAPISkipTLSVerify            bool
	ClusterAPINamespace                string
	ClusterAPIPricesFile               string
}

// AddClusterAPIFlags adds only the settings of the provider clusterapi to a flag set.
func (s *Settings) AddClusterAPIFlags(fs *pflag.FlagSet) { s.addClusterAPIFlags(adder{fs, s}) }

func (s *ClusterAPISettings) addClusterAPIFlags(a adder) {
	a.text(&s.ClusterAPIKubeconfig, "cluster-api-kubeconfig", "", "clusterapi: kubeconfig of the management cluster; empty: --cluster-api-url, or if that is empty, too, the cluster that the controller is for")
	a.text(&s.ClusterAPIURL, "cluster-api-url", "", "clusterapi: the management cluster's API server, https://host:port")
	a.text(&s.ClusterAPIToken, "cluster-api-token", "", "clusterapi: bearer token for --cluster-api-url")
	a.text(&s.ClusterAPICertificateAuthorityData, "cluster-api-certificate-authority-data", "", "clusterapi: CA certificate of --cluster-api-url, PEM or base64 of it")
	a.flag(&s.ClusterAPISkipTLSVerify, "cluster-api-skip-tls-verify", false, "clusterapi: do not check the certificate of --cluster-api-url")
	a.text(&s.ClusterAPINamespace, "cluster-api-namespace", "", "clusterapi: the namespace of the management cluster that has the Cluster; empty: all namespaces are read, which needs a ClusterRole")
	a.text(&s.ClusterAPIPricesFile, "cluster-api-prices-file", "", "clusterapi: file with prices in dollars an hour by name of instance type, YAML or JSON, for those that have no other; it is read again when types are")
}

// ValidateClusterAPI returns an error that names the flag and what it may be, if the
// provider is used.
func (s *ClusterAPISettings) ValidateClusterAPI(isUsed bool) error {
	if !isUsed {
		return nil
	}
	if s.ClusterAPIURL == "" {
		if s.ClusterAPIToken != "" || s.ClusterAPICertificateAuthorityData != "" || s.ClusterAPISkipTLSVerify {
			return errors.New("--cluster-api-token, --cluster-api-certificate-authority-data and --cluster-api-skip-tls-verify need --cluster-api-url")
		}
		return nil
	}
	if s.ClusterAPIKubeconfig != "" {
		return errors.New("--cluster-api-kubeconfig and --cluster-api-url are both set; set one of them")
	}
	if u, err := url.Parse(s.ClusterAPIURL); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--cluster-api-url is %q; it may be https://host:port", s.ClusterAPIURL)
	}
	if s.ClusterAPISkipTLSVerify && s.ClusterAPICertificateAuthorityData != "" {
		return errors.New("--cluster-api-skip-tls-verify and --cluster-api-certificate-authority-data are both set; set one of them")
	}
	if _, err := clusterapi.ReadCertificate(s.ClusterAPICertificateAuthorityData); err != nil {
		return fmt.Errorf("--cluster-api-certificate-authority-data: %w", err)
	}
	return nil
}

// Management returns how the management cluster is reached; nil: it is the controller's own.
func (s *ClusterAPISettings) Management() (*rest.Config, error) {
	switch {
	case s.ClusterAPIKubeconfig != "":
		config, err := clientcmd.BuildConfigFromFlags("", s.ClusterAPIKubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--cluster-api-kubeconfig: %w", err)
		}
		return config, nil
	case s.ClusterAPIURL != "":
		ca, err := clusterapi.ReadCertificate(s.ClusterAPICertificateAuthorityData)
		if err != nil {
			return nil, fmt.Errorf("--cluster-api-certificate-authority-data: %w", err)
		}
		return &rest.Config{Host: s.ClusterAPIURL, BearerToken: s.ClusterAPIToken, TLSClientConfig: rest.TLSClientConfig{CAData: ca, Insecure: s.ClusterAPISkipTLSVerify}}, nil
	}
	return nil, nil
}
