package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

func newDemo() *cobra.Command {
	return &cobra.Command{Use: "demo", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return errors.New("demo: being built") }}
}
