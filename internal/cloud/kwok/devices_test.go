package kwok

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// TestDevicesOfTheFile: an element may say which devices nodes of the type will have.
func TestDevicesOfTheFile(t *testing.T) {
	t.Parallel()
	element := func(name, devices string) string {
		return `{"name": "` + name + `", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": 2, "memory": "4Gi"}, ` + devices + oneOffering + `}`
	}
	path := filepath.Join(t.TempDir(), "types.json")
	content := `[` + element("gpu", `"resourceSlices": [{"driver": "gpu.example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]}], `) + `,` + element("plain", "") + `]`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(nil, Options{InstanceTypesFile: path, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Devices(cloud.ClassRef{}, "gpu"); len(got) != 1 || got[0].Driver != "gpu.example.com" || got[0].Devices[0].Name != "gpu-0" {
		t.Errorf("type gpu has %+v", got)
	}
	if got := p.Devices(cloud.ClassRef{}, "plain"); len(got) > 0 {
		t.Errorf("type plain has %+v", got)
	}
	if err := os.WriteFile(path, []byte(`[`+element("gpu", `"resourceSlices": [{"driver": 5}], `)+`]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(nil, Options{InstanceTypesFile: path, Now: time.Now}); err == nil {
		t.Error("a file whose devices cannot be read is accepted")
	}
}
