package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestFullDiskDoesNotFailTheLogger(t *testing.T) {
	t.Parallel()
	w := &logFile{path: "/dev/full"}
	if err := w.open(); err != nil {
		t.Skip("no /dev/full here")
	}
	if n, err := w.Write([]byte("line\n")); n != 5 || err != nil {
		t.Errorf("Write on a full disk: got %d, %v, want 5 and no error", n, err)
	}
}

func TestLogBeginsAnewWhenItIsLarge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	w := &logFile{path: path}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	w.size = logBytesMax + 1
	for _, line := range []string{"a\n", "b\n"} {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "a\nb\n" {
		t.Errorf("the new log has %q, %v", got, err)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Errorf("the old log: %v", err)
	}
}

func TestLastWordsOfEtcdSayWhatToDoAboutAFullDisk(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("write wal: %w", syscall.ENOSPC)
	got := lastWords("/data", "failed to save", []zapcore.Field{zap.String("x", "y"), zap.Error(full)})
	for _, want := range []string{"failed to save", "no space left on device", "free some space under /data"} {
		if !strings.Contains(got, want) {
			t.Errorf("lastWords: got %q, want %q in it", got, want)
		}
	}
}
