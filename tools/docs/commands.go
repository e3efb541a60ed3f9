package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

// commandsPage is the reference of the command line.
func commandsPage() []byte {
	var b bytes.Buffer
	b.WriteString(`# Commands

What ` + "`dovetail --help`" + ` says of each command. As ` + "`kubectl-dovetail`" + ` on the PATH the program is a plugin (` + "`kubectl dovetail explain …`" + `); it
answers under the names ` + "`karpenter` and `kubectl-karpenter`" + `, too. ` + "`make pages`" + ` writes this page from the code, and a test compares them.

| status | meaning |
|---|---|
| 0 | done |
| 1 | it failed; one line says why |
| 2 | it was called wrongly; one line says how |
| 3 | of ` + "`simulate`" + `: a pod finds no node; of ` + "`replay`" + `: another plan |
| 4 | of ` + "`explain`" + `: there is no such subject |
| 5 | of ` + "`explain`" + ` and ` + "`replay`" + `: no controller can be reached that answers |
`)
	for _, cmd := range cli.Command().Commands() {
		if !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion" {
			describe(&b, cmd)
		}
	}
	return b.Bytes()
}

func describe(b *bytes.Buffer, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```\n%s\n```\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
	if cmd.Long != "" {
		fmt.Fprintf(b, "\n%s\n", paragraphs(cmd.Long))
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", unindented(cmd.Example))
	}
	if cmd.Name() == "controller" {
		b.WriteString("\nIts flags are the [settings](settings.md).\n")
		return
	}
	var rows []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		rows = append(rows, fmt.Sprintf("| %s | `%s` | %s |", name, f.DefValue, cell(f.Usage)))
	})
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| flag | default | meaning |\n|---|---|---|\n%s\n", strings.ReplaceAll(strings.Join(rows, "\n"), "| `` |", "|  |"))
	}
}

// paragraphs returns a help text as Markdown: lines that are indented are what one types.
func paragraphs(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "  ")
		if indented != fenced && strings.TrimSpace(line) != "" {
			b.WriteString(map[bool]string{true: "\n```\n", false: "```\n\n"}[indented])
			fenced = indented
		}
		if indented {
			line = strings.TrimPrefix(line, "  ")
		} else {
			line = strings.NewReplacer("<", "\\<", "|", "\\|").Replace(line)
		}
		b.WriteString(line)
	}
	if fenced {
		b.WriteString("\n```")
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\n\n\n", "\n\n")
}

func unindented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

// cell returns a text as a cell of a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", "\\|", "<", "\\<").Replace(text)
}
