package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// remoteInput is the provider in another process whose instance types count for its node classes.
type remoteInput struct {
	address   string
	files     remote.Files
	plaintext bool
}

func (in *remoteInput) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&in.address, "provider-address", "", "with -f or --live: a provider in another process, which is asked what node classes of its kinds offer: unix:///path/to/socket or dns:///host:port")
	fs.StringVar(&in.files.CA, "provider-ca", "", "file with the CA certificate that signed the provider's certificate")
	fs.StringVar(&in.files.Cert, "provider-cert", "", "file with the certificate to show to the provider")
	fs.StringVar(&in.files.Key, "provider-key", "", "file with its key")
	fs.StringVar(&in.files.ServerName, "provider-server-name", "", "name in the provider's certificate; empty: the host of the address")
	fs.BoolVar(&in.plaintext, "provider-plaintext", false, "connect to dns:/// without TLS; to this computer only")
}

// errReadOnly is the answer to what simulate never asks.
var errReadOnly = errors.New("simulate launches nothing and ends nothing")

// connect asks the provider what it is. Node classes are read from classes.
func (in *remoteInput) connect(ctx context.Context, classes client.Reader) (*providerTypes, error) {
	link, err := remote.Open(remote.Options{
		Address: in.address, Files: in.files, Plaintext: in.plaintext, Cluster: remote.Cluster{Name: "simulate", UID: "simulate"}, Version: version, Now: time.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("--provider-address: %w", err)
	}
	d, err := link.Describe(ctx)
	if err != nil {
		_ = link.Close()
		return nil, fmt.Errorf("provider at %s: %w", in.address, err)
	}
	p := remote.New(link, d, classes, func() error { return errReadOnly })
	r := &providerTypes{
		kinds: map[schema.GroupKind]bool{}, vocabulary: p.Vocabulary(),
		ask: func(class cloud.ClassRef) ([]*catalog.Type, error) { return p.Types(ctx, class) },
		close: func() {
			p.(interface{ Close() }).Close()
			_ = link.Close()
		},
	}
	for _, kind := range d.ClassKinds {
		r.kinds[kind.GroupKind()] = true
	}
	return r, nil
}
