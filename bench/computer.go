package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// command returns what writes the page.
func command(s settings) string {
	line := "make bench"
	if s.quick {
		line += " QUICK=1"
	}
	if s.limit != limitDefault {
		line += " LIMIT=" + s.limit.String()
	}
	return "`" + line + "`"
}

// modules returns the modules that a binary was built from, as path and version together.
func modules(binary string) (map[string]string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read what the binary was built from: %w", err)
	}
	out := map[string]string{}
	for _, m := range info.Deps {
		out[m.Path] = m.Path + " " + m.Version
	}
	return out, nil
}

// computer returns the rows of a table that say where the figures are from.
func computer(versions map[string]string) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "| %s | %s |\n", name, value) }
	line("processor", fmt.Sprintf("%s, %d cpus", field("/proc/cpuinfo", "model name"), runtime.NumCPU()))
	line("memory", field("/proc/meminfo", "MemTotal"))
	line("load when it was started", strings.Join(strings.Fields(content("/proc/loadavg"))[:3], ", "))
	line("Go", runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	line("Karpenter", versions["sigs.k8s.io/karpenter"]+" with "+versions["k8s.io/client-go"])
	line("Dovetail", revision())
	return strings.TrimSuffix(b.String(), "\n")
}

func content(path string) string {
	b, err := os.ReadFile(path) //nolint:gosec // of /proc
	if err != nil {
		return "? ? ?"
	}
	return string(b)
}

// field returns the value of the first line "name: value" of a file.
func field(path, name string) string {
	for line := range strings.Lines(content(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "unknown"
}

// revision returns the commit that is checked out, and whether files differ from it.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output() //nolint:noctx // it takes milliseconds
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
