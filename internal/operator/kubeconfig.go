package operator

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// followKubeconfig returns how a cluster is reached as a kubeconfig says at the time: credentials and certificates may be
// rotated without a restart.
func followKubeconfig(path string, log *slog.Logger) (*rest.Config, error) {
	f := &followed{path: path, log: log}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	config, next, err := f.read()
	if err != nil {
		return nil, err
	}
	f.server, f.seen, f.next = config.Host, info, next
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("%s: server: %w", path, err)
	}
	return &rest.Config{Host: url.String(), Transport: f, Timeout: config.Timeout}, nil
}

// followed is the transport of followKubeconfig.
type followed struct {
	path string
	// server is what the kubeconfig names. Another one may be another cluster, which has none of our instances.
	server string
	log    *slog.Logger

	mu sync.Mutex
	// seen is the file when it was last read; guarded by mu.
	seen os.FileInfo
	// next sends requests as the file said; guarded by mu.
	next http.RoundTripper
}

func (f *followed) read() (*rest.Config, http.RoundTripper, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.path)
	if err != nil {
		return nil, nil, err
	}
	next, err := rest.TransportFor(config)
	return config, next, err
}

// RoundTrip sends a request.
func (f *followed) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.current().RoundTrip(r)
}

// current reads the file again if it has changed. One that cannot be used changes nothing.
func (f *followed) current() http.RoundTripper {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil || os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() {
		return f.next // a file that is being replaced is there again soon
	}
	f.seen = info
	config, next, err := f.read()
	if err == nil && config.Host != f.server {
		err = fmt.Errorf("its server is %s, and was %s: restart the controller if that is the same cluster", config.Host, f.server)
	}
	if err != nil {
		f.log.Warn("the kubeconfig has changed and cannot be used: what it said before holds", "file", f.path, "error", err)
		return f.next
	}
	f.next = next
	f.log.Info("the kubeconfig has changed and was read again", "file", f.path)
	return f.next
}
