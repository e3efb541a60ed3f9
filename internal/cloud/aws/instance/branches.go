package instance

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

//go:generate go -C ../../../../tools run ./ec2branches ../internal/cloud/aws/instance/branches.csv

// branchTable has a line for each type that can have branch interfaces: its name and how
// many. The figures are those of the VPC resource controller (Apache License 2.0), which
// is what hands the interfaces out.
//
//go:embed branches.csv
var branchTable string

// branches returns how many branch interfaces each type can have.
//
//nolint:gochecknoglobals // a constant that Go cannot spell
var branches = sync.OnceValue(func() map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(branchTable) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ",")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic("branches.csv: " + err.Error()) // a test reads it
		}
		out[name] = n
	}
	return out
})
