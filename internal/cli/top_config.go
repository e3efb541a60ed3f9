package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/tui"
)

// topConfig is what a person always wants of top: the file dovetail/top.yaml in the user's configuration directory.
type topConfig struct {
	Columns    []string `json:"columns"`
	NodeLabels []string `json:"nodeLabels"`
	NoColor    bool     `json:"noColor"`
	ASCII      bool     `json:"ascii"`
}

// configure takes from the file what no flag says.
func (f *topFlags) configure(cmd *cobra.Command) error {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil //nolint:nilerr // a user without a home has no such file
	}
	path := filepath.Join(dir, "dovetail", "top.yaml")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c topConfig
	if err == nil {
		if err = yaml.UnmarshalStrict(text, &c); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return err
	}
	if err := tui.CheckColumns(c.Columns); err != nil {
		return fmt.Errorf("%s: columns: %w", path, err)
	}
	given := cmd.Flags().Changed
	if !given("columns") {
		f.columns = c.Columns
	}
	if !given("node-label") {
		f.nodeLabels = c.NodeLabels
	}
	if !given("no-color") {
		f.noColor = c.NoColor
	}
	if !given("ascii") {
		f.ascii = c.ASCII
	}
	return nil
}
