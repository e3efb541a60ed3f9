// Package logs sends what everything in this process has to say into one bounded file, and
// nothing to the terminal: a healthy control plane logs errors all the time.
package logs

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

// To sends all logs to a file, at klog verbosity v. It must be called once, before
// anything that logs starts.
func To(path string, v int) error {
	w := &logFile{path: path}
	if err := w.open(); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL", "v": strconv.Itoa(v)} {
		if err := fs.Set(name, value); err != nil {
			return fmt.Errorf("configure klog: %w", err)
		}
	}
	klog.SetOutput(w)
	// KWOK logs a line at Info for every change of an object.
	slog.SetDefault(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})))
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

// Etcd returns a logger that hands etcd's errors to klog. When etcd cannot write its
// journal it logs that and ends the process: our hook then says why on the terminal. Dir is
// the cluster's directory.
func Etcd(dir string) *zap.Logger {
	encoder := zap.NewProductionEncoderConfig()
	encoder.TimeKey, encoder.LevelKey = "", ""
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(encoder), zapcore.AddSync(klogWriter{}), zapcore.ErrorLevel)
	hook := fatalHook{dir: dir}
	return zap.New(core, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

type klogWriter struct{}

func (klogWriter) Write(p []byte) (int, error) {
	klog.Error("etcd: ", string(p))
	return len(p), nil
}

// fatalHook ends the process when etcd cannot go on.
type fatalHook struct{ dir string }

// OnWrite prints one line and exits.
func (h fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	fmt.Fprintln(os.Stderr, "devcluster:", lastWords(h.dir, entry.Message, fields))
	os.Exit(1)
}

func lastWords(dir, message string, fields []zapcore.Field) string {
	words := "etcd stopped: " + message
	for _, f := range fields {
		err, ok := f.Interface.(error)
		if !ok {
			continue
		}
		words += ": " + err.Error()
		if errors.Is(err, syscall.ENOSPC) {
			words += ": free some space under " + dir + " and start again, nothing acknowledged is lost"
		}
	}
	return words
}
