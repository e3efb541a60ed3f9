package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

// writeManual writes man pages, and what shells need to complete a line.
func writeManual(output, version string, at time.Time) error {
	man, completions := filepath.Join(output, "man", "man1"), filepath.Join(output, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	root := cli.Command()
	untagged(root)
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &at, Source: "dovetail " + version, Manual: "Dovetail"}, man); err != nil {
		return err
	}
	for name, write := range map[string]func(string) error{
		"dovetail.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_dovetail":     root.GenZshCompletionFile,
		"dovetail.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		"dovetail.ps1":  root.GenPowerShellCompletionFileWithDesc,
	} {
		if err := write(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return nil
}

// untagged keeps the date of the build, which cobra would add, out of every page.
func untagged(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, c := range cmd.Commands() {
		untagged(c)
	}
}
