package repair

import "testing"

func TestSnakeCase(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"Ready": "ready", "DiskPressure": "disk_pressure", "ACMEBroken": "acme_broken", "KernelReady2": "kernel_ready2", "": "",
	} {
		if got := snakeCase(words); got != want {
			t.Errorf("snakeCase(%q) = %q, want %q", words, got, want)
		}
	}
}
