package capi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"
)

// The programs: Cluster API's core controllers, and those of its Dev provider.
const (
	Core = "core"
	Dev  = "dev"
)

const (
	// linesShown is how much of a program's log a failed test shows.
	linesShown = 25
	// webhookPortFirst is the first of the ports on which the programs serve webhooks, which nobody calls. The Dev provider
	// has 19000 and those from 20000 on besides, which no flag changes, and nothing else in the tests has ports below 20100.
	webhookPortFirst = 19001
)

// Programs returns both.
func Programs() []string { return []string{Core, Dev} }

// Run runs a program until it is killed or the test ends.
func (m *Cluster) Run(program string) {
	m.t.Helper()
	dir := m.t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	port := webhookPortFirst + slices.Index(Programs(), program)
	cmd := exec.CommandContext(context.WithoutCancel(m.t.Context()), filepath.Join(m.programs, program), "--kubeconfig="+m.config, "--webhook-cert-dir="+dir, fmt.Sprintf("--webhook-port=%d", port),
		"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics", "--health-addr=127.0.0.1:0", "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields")
	output, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		m.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	p := &manager{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.gone)
	}()
	m.managers[program] = p
	m.t.Cleanup(func() {
		isRunning := p.running()
		p.kill()
		_ = output.Close()
		if text, err := os.ReadFile(output.Name()); m.t.Failed() && isRunning && err == nil {
			lines := strings.Split(string(text), "\n")
			m.t.Logf("the last lines of %s:\n%s", program, strings.Join(lines[max(0, len(lines)-linesShown):], "\n"))
		}
	})
}

// Kill ends a program as kill -9 does. The test fails if it had ended by itself.
func (m *Cluster) Kill(program string) {
	m.t.Helper()
	p := m.managers[program]
	if !p.running() {
		m.t.Errorf("%s ended by itself: %s", program, p.cmd.ProcessState)
	}
	p.kill()
}

func (p *manager) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

func (p *manager) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}
