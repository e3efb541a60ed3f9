// Command dovetail is the autoscaler and its tools.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // whoever asks twice does not want to wait
	code := cli.MainAs(ctx, os.Args[0], os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
