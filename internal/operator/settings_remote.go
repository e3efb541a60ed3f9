package operator

import (
	"errors"
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
)

// RemoteSettings are those that only the provider remote reads.
type RemoteSettings struct {
	ProviderAddress    string
	ProviderCA         string
	ProviderCert       string
	ProviderKey        string
	ProviderServerName string
	ProviderPlaintext  bool
}

func (s *RemoteSettings) addRemoteFlags(a adder) {
	a.text(&s.ProviderAddress, "provider-address", "", "remote: where the provider listens: unix:///path/to/socket or dns:///host:port")
	a.text(&s.ProviderCA, "provider-ca", "", "remote: file with the CA certificate that signed the provider's certificate, PEM; needed with dns:///")
	a.text(&s.ProviderCert, "provider-cert", "", "remote: file with the controller's certificate, PEM; needed with dns:///. Files are read again for each connection")
	a.text(&s.ProviderKey, "provider-key", "", "remote: file with the key of that certificate, PEM")
	a.text(&s.ProviderServerName, "provider-server-name", "", "remote: the name in the provider's certificate; empty: the host of the address")
	a.flag(&s.ProviderPlaintext, "provider-plaintext", false, "remote: connect to dns:/// without TLS, which is allowed to addresses of this computer only")
}

// validateRemote returns an error that names the flag and what it may be, if the
// provider is used.
func (s *RemoteSettings) validateRemote(isUsed bool) error {
	if !isUsed {
		return nil
	}
	if s.ProviderAddress == "" {
		return errors.New("--provider-address is empty; it may be unix:///path/to/socket or dns:///host:port")
	}
	if _, err := remote.CheckAddress(s.ProviderAddress, s.files(), s.ProviderPlaintext); err != nil {
		return fmt.Errorf("--provider-address, --provider-ca, --provider-cert, --provider-key, --provider-server-name, --provider-plaintext: %w", err)
	}
	return nil
}

func (s *RemoteSettings) files() remote.Files {
	return remote.Files{CA: s.ProviderCA, Cert: s.ProviderCert, Key: s.ProviderKey, ServerName: s.ProviderServerName}
}
