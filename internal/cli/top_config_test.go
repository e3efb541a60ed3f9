package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTopIsConfigured: the file of the user holds where a flag is not given. It sets the environment, so that it is
// not parallel.
func TestTopIsConfigured(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the configuration directory is not named by XDG_CONFIG_HOME here")
	}
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	type settings struct {
		Columns, NodeLabels []string
		NoColor, ASCII      bool
	}
	configured := func(text string, flags ...string) (settings, error) {
		if err := os.MkdirAll(filepath.Join(dir, "dovetail"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "dovetail", "top.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := &topFlags{}
		cmd := newTopWith(f)
		if err := cmd.ParseFlags(flags); err != nil {
			t.Fatal(err)
		}
		err := f.configure(cmd)
		return settings{f.columns, f.nodeLabels, f.noColor, f.ascii}, err
	}
	const all = "columns: [name, price]\nnodeLabels: [example.com/team]\nnoColor: true\nascii: true\n"
	for name, c := range map[string]struct {
		flags []string
		want  settings
	}{
		"no flag":    {nil, settings{[]string{"name", "price"}, []string{"example.com/team"}, true, true}},
		"all flags":  {[]string{"--columns=zone", "--node-label=a,b", "--no-color=false", "--ascii=false"}, settings{[]string{"zone"}, []string{"a", "b"}, false, false}},
		"some flags": {[]string{"--columns=zone"}, settings{[]string{"zone"}, []string{"example.com/team"}, true, true}},
	} {
		if got, err := configured(all, c.flags...); err != nil || !cmp.Equal(c.want, got) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	for text, want := range map[string]string{"columns: [name, a]": `columns: there is no column "a"`, "colums: [name]": `unknown field "colums"`} {
		if _, err := configured(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "top.yaml") {
			t.Errorf("%s: %v", text, err)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	f := &topFlags{}
	if err := f.configure(newTopWith(f)); err != nil {
		t.Errorf("without a file: %v", err)
	}
}
