package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
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
	path string
	controllerFlags
}

func (f *journalFlags) addPath(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "journal", "", "read a journal file, or the directory of controller --journal-dir, instead of asking a controller")
}

// read returns the journal. What could not be read of it is said on stderr.
func (f *journalFlags) read(ctx context.Context, stderr io.Writer) (*journal.File, error) {
	var file *journal.File
	var err error
	if f.path != "" {
		file, err = journal.Read(f.path)
	} else {
		file, err = f.fileAt(ctx, journal.Path+"/all")
	}
	if err != nil {
		return nil, err
	}
	for _, note := range file.Notes {
		fmt.Fprintf(stderr, "dovetail: note: %s\n", note)
	}
	return file, nil
}

// fileAt reads a file of a controller.
func (f *journalFlags) fileAt(ctx context.Context, path string) (file *journal.File, err error) {
	err = f.ask(ctx, path, func(answer *http.Response) error {
		if err := refusal(answer); err != nil {
			return err
		}
		file, err = journal.ReadFrom(answer.Body, f.address)
		return err
	})
	return file, err
}

// one returns the file of one decision of a controller.
func (f *journalFlags) one(ctx context.Context, id journal.ID) (file *journal.File, err error) {
	err = f.ask(ctx, journal.Path+"/"+id.String(), func(answer *http.Response) error {
		if answer.StatusCode == http.StatusNotFound {
			why, _ := io.ReadAll(io.LimitReader(answer.Body, excuseMost)) // what there is of it
			if text := strings.TrimSpace(string(why)); strings.Contains(text, journal.ErrNoDecision.Error()) {
				return &statusError{errors.New(text), statusNoSubject}
			}
		}
		if err := refusal(answer); err != nil {
			return err
		}
		file, err = journal.ReadFrom(answer.Body, f.address)
		return err
	})
	return file, err
}

// ask asks the controller at the address given, behind a forwarded port, or wherever it leads.
func (f *journalFlags) ask(ctx context.Context, path string, read func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	var err error
	if f.address, err = f.locate(ctx); err != nil {
		return err
	}
	return f.fetch(ctx, path, read)
}

// fetch asks the address.
func (f *journalFlags) fetch(ctx context.Context, path string, read func(*http.Response) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.address+path, nil)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return &statusError{fmt.Errorf("ask %s for its journal: %w; make it reachable (kubectl port-forward -n NAMESPACE deploy/NAME 8082), or give a file", f.address, err), statusUnreachable}
	}
	defer answer.Body.Close() //nolint:errcheck // it was read only
	if err := read(answer); err != nil {
		var status *statusError
		if errors.As(err, &status) {
			return err
		}
		return fmt.Errorf("ask %s for its journal: %w", f.address, err)
	}
	return nil
}

// refusal says why a replica does not answer; nil: it does.
func refusal(answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusMisdirectedRequest, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		why, _ := io.ReadAll(io.LimitReader(answer.Body, excuseMost)) // what there is of it
		return &statusError{errors.New(strings.TrimSpace(string(why))), statusUnreachable}
	default:
		return &statusError{fmt.Errorf("it answers %s; the address must be the debug port of a controller of this version that keeps a journal (--journal-memory-bytes above 0)", answer.Status), statusUnreachable}
	}
}

// where says what was read.
func (f *journalFlags) where() string {
	if f.path != "" {
		return f.path
	}
	return f.address
}
