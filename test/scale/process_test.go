package scale

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// patience bounds every wait. It is many times what an idle computer needs.
var patience = flag.Duration("patience", 4*time.Minute, "how long to wait for anything")

// memoryLimit is that of docs/sizing.md for a cluster of this size.
var memoryLimit = flag.Int64("memory-limit", 3<<30, "MEMORY_LIMIT of the controller in bytes, which the chart sets from the limit of its container; -1: none")

// process is a controller under measurement.
type process struct {
	tb   testing.TB
	cmd  *exec.Cmd
	gone chan struct{}

	mu             sync.Mutex
	lines          []string // guarded by mu
	metrics, debug string   // guarded by mu; addresses
}

// start starts the controller. It is killed when the test ends.
func start(tb testing.TB, kubeconfig string) *process {
	tb.Helper()
	p := &process{tb: tb, gone: make(chan struct{})}
	p.cmd = exec.Command(testkit.Binary(tb, "dovetail"), "controller", "--kubeconfig", kubeconfig, "--cloud-provider", "kwok",
		"--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0", "--enable-profiling", "--leader-election-namespace", "kube-system")
	p.cmd.Env = []string{"HOME=" + tb.TempDir(), "PATH=" + os.Getenv("PATH"), fmt.Sprint("MEMORY_LIMIT=", *memoryLimit)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		p.read(out)
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	tb.Cleanup(func() {
		p.kill()
		if tb.Failed() {
			tb.Logf("the controller's log:\n%s", p)
		}
	})
	return p
}

func (p *process) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var started struct{ Message, Metrics, Debug string }
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		if json.Unmarshal(lines.Bytes(), &started) == nil && started.Message == "started" {
			p.metrics, p.debug = started.Metrics, started.Debug
		}
		p.mu.Unlock()
	}
}

// kill ends the process as SIGKILL does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// stop ends the process as Kubernetes does.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.gone
}

// String returns the last lines of the log.
func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-30):], "\n")
}

// address returns where the process answers, once it has said so.
func (p *process) address(debug bool) string {
	p.tb.Helper()
	var address string
	testkit.Eventually(p.tb, *patience, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if address = p.metrics; debug {
			address = p.debug
		}
		if address == "" {
			return errors.New("the controller does not say where it answers")
		}
		return nil
	})
	return address
}

// cpu returns how much CPU time the process has used.
func (p *process) cpu() time.Duration {
	p.tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.tb.Fatalf("%v\n%s", err, p)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(after)
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100) // the kernel's ticks
}

// memory returns a line of the process's memory in bytes: VmRSS, VmHWM.
func (p *process) memory(line string) float64 {
	p.tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.tb.Fatalf("%v\n%s", err, p)
	}
	for l := range strings.Lines(string(status)) {
		if f := strings.Fields(l); f[0] == line+":" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib * 1024
		}
	}
	return 0
}

// live returns how many bytes of the heap are in use, after a garbage collection.
func (p *process) live() float64 {
	p.tb.Helper()
	text := p.get(p.address(true), "/debug/pprof/heap?gc=1&debug=1")
	for l := range strings.Lines(text) {
		if value, is := strings.CutPrefix(l, "# HeapAlloc = "); is {
			bytes, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return bytes
		}
	}
	p.tb.Fatal("the controller does not say how large its heap is")
	return 0
}

// scrape reads the metrics, as Prometheus does, and returns how many bytes they are.
func (p *process) scrape() int {
	p.tb.Helper()
	return len(p.get("127.0.0.1:"+port(p.address(false)), "/metrics"))
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func (p *process) get(address, path string) string {
	p.tb.Helper()
	response, err := http.Get("http://" + address + path)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.tb.Fatal(err)
	}
	return string(body)
}

// keepProfile writes a profile for go tool pprof, if a directory is wanted for them.
func (p *process) keepProfile(name, path string) {
	if *profiles == "" {
		return
	}
	if err := os.WriteFile(*profiles+"/"+name+".pb.gz", []byte(p.get(p.address(true), path)), 0o600); err != nil {
		p.tb.Fatal(err)
	}
}

// calm waits until the process uses less than a twentieth of a processor for three seconds.
func (p *process) calm() {
	p.tb.Helper()
	testkit.Eventually(p.tb, *patience, func() error {
		before := p.cpu()
		time.Sleep(3 * time.Second)
		if used := p.cpu() - before; used >= 150*time.Millisecond {
			return fmt.Errorf("the controller used %s of CPU in three seconds", used)
		}
		return nil
	})
}
