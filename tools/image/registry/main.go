// Command registry serves an OCI registry on loopback, which keeps everything in memory, until its
// standard input ends. Its first line of output is the address. Tests push charts and images to it.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintf(os.Stderr, "registry: %s\n", err)
		os.Exit(1)
	}
}

func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		ReadHeaderTimeout: 10 * time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with whoever started this
		close(ended)
	}()
	fmt.Println(l.Addr())
	select {
	case err := <-failed:
		return err
	case <-ended:
		return server.Close()
	}
}
