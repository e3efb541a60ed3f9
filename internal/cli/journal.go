package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
)

const (
	// addressForwarded is where kubectl port-forward to the controller's debug port answers.
	addressForwarded = "http://localhost:8082"
	// journalPatience bounds how long a controller may take to hand its journal over.
	journalPatience = time.Minute
	// excuseMost bounds what is read of why a replica does not hand its journal over.
	excuseMost = 1 << 10
)

// journalFlags say where a journal is read from.
type journalFlags struct {
	path, address         string
	kubeconfig, namespace string
}

func (f *journalFlags) addPath(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "journal", "", "read a journal file, or the directory of controller --journal-dir, instead of asking a controller")
}

func (f *journalFlags) addAddress(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "address", "", "the debug port of a controller; empty: "+addressForwarded+" if something answers there and no cluster is named, else that of the replica that leads, through the API server")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the cluster; empty: KUBECONFIG or ~/.kube/config")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace of the controller; empty: wherever the lease is")
}

// read returns the journal. What could not be read of it is said on stderr.
func (f *journalFlags) read(ctx context.Context, stderr io.Writer) (*journal.File, error) {
	var file *journal.File
	var err error
	if f.path != "" {
		file, err = journal.Read(f.path)
	} else {
		file, err = f.ask(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, note := range file.Notes {
		fmt.Fprintf(stderr, "dovetail: note: %s\n", note)
	}
	return file, nil
}

// ask asks the controller at the address given, behind a forwarded port, or wherever it leads.
func (f *journalFlags) ask(ctx context.Context) (*journal.File, error) {
	if f.address != "" {
		return fetch(ctx, f.address)
	}
	if f.kubeconfig == "" && f.namespace == "" { // else a cluster is named
		file, err := fetch(ctx, addressForwarded)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			f.address = addressForwarded
			return file, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	address, err := f.forward(ctx)
	if err != nil {
		return nil, err
	}
	f.address = address
	return fetch(ctx, address)
}

func fetch(ctx context.Context, address string) (*journal.File, error) {
	address = strings.TrimSuffix(address, "/")
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+journal.Path+"/all", nil)
	if err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("ask %s for its journal: %w; make it reachable (kubectl port-forward -n NAMESPACE deploy/NAME 8082), or give a file", address, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read only
	if answer.StatusCode == http.StatusMisdirectedRequest || answer.StatusCode == http.StatusServiceUnavailable {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, excuseMost)) // what there is of it
		return nil, fmt.Errorf("ask %s for its journal: %s", address, strings.TrimSpace(string(why)))
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s for its journal: it answers %s; the address must be the debug port of a controller that keeps one (--journal-memory-bytes above 0)", address, answer.Status)
	}
	return journal.ReadFrom(answer.Body, address)
}

// where says what was read.
func (f *journalFlags) where() string {
	if f.path != "" {
		return f.path
	}
	return f.address
}
