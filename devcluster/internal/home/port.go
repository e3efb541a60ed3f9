package home

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Free ports are looked for here: below the range from which Linux takes the ports of
// outgoing connections (32768 up), since one of those could have our port just when a
// stopped cluster wants it back. The Dev provider of Cluster API, which tests run beside dev clusters,
// takes those from 20000 on.
const (
	portFirst = 20100
	portLast  = 31999
	portTries = 100
)

const (
	// PortKept asks for the port that the directory had before, or a free one.
	PortKept = -1
	// PortFree asks for a free port, whatever the directory had.
	PortFree = 0
)

// Listen opens the API server's port on 127.0.0.1 and remembers it in the directory.
// The listener is handed on as it is, so that nobody can take the port in between.
func (h *Home) Listen(port int) (net.Listener, error) {
	if port == PortKept {
		kept, ok, err := h.keptPort()
		if err != nil {
			return nil, err
		}
		port = PortFree
		if ok {
			port = kept
		}
	}
	l, err := listen(port)
	if err != nil {
		return nil, err
	}
	port = l.Addr().(*net.TCPAddr).Port
	if err := writeFile(h.Path("port"), []byte(strconv.Itoa(port)+"\n")); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (h *Home) keptPort() (port int, ok bool, err error) {
	b, err := os.ReadFile(h.Path("port"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the cluster's port: %w", err)
	}
	port, err = strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, false, fmt.Errorf("read the cluster's port from %s: %w: pass --port, or remove the file", h.Path("port"), err)
	}
	return port, true, nil
}

func listen(port int) (net.Listener, error) {
	if port != PortFree {
		l, err := net.Listen("tcp", loopback(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("port %d on 127.0.0.1 is taken: stop what listens there (`ss -ltnp` shows it), or pass --port 0 for a free one", port)
		}
		if err != nil {
			return nil, fmt.Errorf("listen on port %d: %w", port, err)
		}
		return l, nil
	}
	for range portTries {
		l, err := net.Listen("tcp", loopback(portFirst+rand.IntN(portLast-portFirst+1)))
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listen on a free port: %w", err)
		}
	}
	return nil, fmt.Errorf("listen on a free port: %d ports between %d and %d tried, all taken", portTries, portFirst, portLast)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
