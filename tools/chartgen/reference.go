package main

import (
	"bytes"
	"fmt"
	"strings"
)

const head = "# Values of the chart\n\n" +
	"Values of the chart `karpenter`. Names, and defaults where nothing else is said, are those of Karpenter's chart. A name that is not here is an error that says\n" +
	"the nearest one; so is a value of a wrong type. `make generate` writes this page from [values.yaml](../../deploy/charts/karpenter/values.yaml).\n" +
	"[Installing](../install.md) has the commands.\n"

// reference returns docs/reference/chart.md.
func reference(values []value, olds []old) []byte {
	var out bytes.Buffer
	out.WriteString(head)
	out.WriteString("\n| value | default | meaning |\n|---|---|---|\n")
	rows(&out, values, "")
	out.WriteString("\n## Old names\n\nWhat Karpenter's charts had once is understood. Helm's notes say what became of it.\n\n| old | now |\n|---|---|\n")
	for _, o := range olds {
		now := "without effect"
		if o.New != "" {
			now = "`" + o.New + "`"
		} else if o.Dropped != "" {
			now += ": " + o.Dropped
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", o.Old, now)
	}
	return out.Bytes()
}

// rows writes a row for each value; one without a text has that of the object it is in.
func rows(out *bytes.Buffer, values []value, above string) {
	for _, v := range values {
		text := v.text
		if text == "" {
			text = above
		}
		if v.children != nil {
			rows(out, v.children, text)
			continue
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", v.name, strings.ReplaceAll(v.fallback, "|", "\\|"), strings.ReplaceAll(text, "|", "\\|"))
	}
}
