package plane

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// logBytesMax is the size at which the log begins anew; the one before is kept.
const logBytesMax = 64 << 20

// LogTo sends the logs of everything in this process to one file, at klog verbosity v,
// and nothing to the terminal: a healthy control plane logs errors all the time. It must
// be called once, before anything starts.
func LogTo(path string, v int) error {
	w := &logFile{path: path}
	if err := w.open(); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "v": strconv.Itoa(v)} {
		if err := fs.Set(name, value); err != nil {
			return fmt.Errorf("configure klog: %w", err)
		}
	}
	klog.SetOutput(w)
	slog.SetDefault(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))) // KWOK has one line at Info per change of an object
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, w))
	return nil
}

// logFile is a bounded file that swallows errors: klog ends the process when it cannot
// log, and a full disk is told better by etcd.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File // guarded by mu
	size int64    // guarded by mu
}

func (w *logFile) open() error {
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.file, w.size = f, info.Size()
	return nil
}

// Write appends p as far as it can and reports success.
func (w *logFile) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size > logBytesMax {
		old := w.file
		_ = os.Rename(w.path, w.path+".1")
		w.size = 0
		if w.open() == nil {
			_ = old.Close()
		}
	}
	n, _ := w.file.Write(p)
	w.size += int64(n)
	return len(p), nil
}

// newEtcdCore forwards etcd's warnings and errors to klog.
func newEtcdCore() zapcore.Core {
	encoder := zap.NewProductionEncoderConfig()
	encoder.TimeKey, encoder.LevelKey = "", ""
	return zapcore.NewCore(zapcore.NewConsoleEncoder(encoder), zapcore.AddSync(klogWriter{}), zapcore.ErrorLevel)
}

type klogWriter struct{}

func (klogWriter) Write(p []byte) (int, error) {
	klog.Error("etcd: ", string(p))
	return len(p), nil
}

// fatalHook replaces etcd's silent exit by one line on the terminal.
type fatalHook struct{ dir string }

// OnWrite ends the process.
func (h fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	var cause error
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			cause = err
		}
	}
	advice := ""
	if errors.Is(cause, syscall.ENOSPC) {
		advice = ": free some space under " + h.dir + " and start again, what the cluster had acknowledged is kept"
	}
	fmt.Fprintf(os.Stderr, "devcluster: etcd stopped: %s: %v%s\n", entry.Message, cause, advice)
	os.Exit(1)
}
