// Command docs makes what is made of the documents and of the code: the site, the pages of
// docs/reference that follow from the code, man pages and completions, and the licences of the modules
// that a release consists of.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "docs: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say what to make: site, pages, manual or notices")
	}
	flags := flag.NewFlagSet("docs "+args[0], flag.ContinueOnError)
	root := flags.String("root", "../..", "directory of the repository")
	output := flags.String("output", "", "directory (of notices: file) that is written")
	version := flags.String("version", "", "manual: version that the man pages name")
	created := flags.String("created", "", "manual: time that the man pages have, in RFC 3339")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *output == "" && args[0] != "pages" {
		return fmt.Errorf("%s: -output must be set", args[0])
	}
	switch args[0] {
	case "site":
		return writeSite(*root, *output)
	case "pages":
		return writePages(*root)
	case "manual":
		at, err := time.Parse(time.RFC3339, *created)
		if err != nil {
			return fmt.Errorf("-created: %w", err)
		}
		return writeManual(*output, *version, at)
	case "notices":
		return writeNotices(*root, *output)
	}
	return fmt.Errorf("%q is unknown; it must be site, pages, manual or notices", args[0])
}
