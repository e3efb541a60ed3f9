package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Files are the certificates of a connection, PEM. They are read again for every connection, so a
// certificate that is replaced in time is never missed.
type Files struct {
	// CA signs the provider's certificate.
	CA string
	// Cert and Key are the controller's own.
	Cert, Key string
	// ServerName is in the provider's certificate; empty: the host of the address.
	ServerName string
}

// CheckAddress returns how connections to an address are secured. The error names what is wrong.
func CheckAddress(address string, files Files, plaintext bool) (credentials.TransportCredentials, error) {
	scheme, rest, ok := strings.Cut(address, ":///")
	if !ok || rest == "" || (scheme != "unix" && scheme != "dns") {
		return nil, fmt.Errorf("the provider's address is %q; it may be unix:///path/to/socket or dns:///host:port", address)
	}
	if scheme == "unix" {
		if files != (Files{}) {
			return nil, errors.New("certificates are of no use with a unix socket; its file mode says who may connect")
		}
		return insecure.NewCredentials(), nil
	}
	host, _, err := net.SplitHostPort(rest)
	if err != nil || host == "" {
		return nil, fmt.Errorf("the provider's address is %q; it may be dns:///host:port", address)
	}
	switch {
	case plaintext && files != (Files{}):
		return nil, errors.New("certificates are of no use without TLS: leave out either")
	case plaintext && !isLoopback(host):
		return nil, fmt.Errorf("a connection without TLS may only go to this computer, such as dns:///127.0.0.1:port; the address is %q", address)
	case plaintext:
		return insecure.NewCredentials(), nil
	case files.CA == "" || files.Cert == "" || files.Key == "":
		return nil, fmt.Errorf("a connection to %q needs TLS: the CA of the provider's certificate, and the controller's own certificate and key", address)
	}
	if _, err := files.load(); err != nil {
		return nil, err
	}
	return reloading{files: files}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// load reads the files.
func (f Files) load() (*tls.Config, error) {
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("read the CA of the provider's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the CA of the provider's certificate: %s has no certificate", f.CA)
	}
	own, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read the controller's certificate and key: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{own}, ServerName: f.ServerName}, nil
}

// reloading secures each connection with the files as they are when it is made.
type reloading struct{ files Files }

// ClientHandshake secures one connection.
func (r reloading) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := r.files.load()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// ServerHandshake is not for us.
func (r reloading) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are the credentials of a client")
}

// Info says that it is TLS.
func (r reloading) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns the same, which never changes.
func (r reloading) Clone() credentials.TransportCredentials { return r }

// OverrideServerName is not for us.
func (r reloading) OverrideServerName(string) error {
	return errors.New("the server's name is an option")
}
