package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	resourceapi "k8s.io/api/resource/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// knowing returns a provider with both gates, whose class shares GPUs in this way, and is Ready.
func (w *world) knowing(t *testing.T, mode string) *Provider {
	t.Helper()
	p := w.provider(t)
	p.opts.NVIDIADevices, p.opts.EFADevices = true, true
	class := w.class(t, "default")
	class.Annotations = map[string]string{awsv1.AnnotationNVIDIASharing: mode}
	if err := w.api.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	w.ready(t, p, "default")
	if _, err := p.Types(t.Context(), classRef); err != nil {
		t.Fatal(err)
	}
	return p
}

// describe writes down what slices say: how many devices of which driver, and what the first of them
// is.
func describe(specs []resourceapi.ResourceSliceSpec) string {
	var out []string
	for i := range specs {
		s := &specs[i]
		d := &s.Devices[0]
		var says []string
		for name, a := range d.Attributes {
			switch {
			case a.StringValue != nil:
				says = append(says, fmt.Sprintf("%s=%s", name, *a.StringValue))
			case a.VersionValue != nil:
				says = append(says, fmt.Sprintf("%s=%s", name, *a.VersionValue))
			default:
				says = append(says, fmt.Sprintf("%s=%t", name, *a.BoolValue))
			}
		}
		for name, c := range d.Capacity {
			says = append(says, fmt.Sprintf("%s:%s", name, c.Value.String()))
		}
		slices.Sort(says)
		out = append(out, fmt.Sprintf("%d of %s in %s, %s: %s", len(s.Devices), s.Driver, s.Pool.Name, d.Name, strings.Join(says, ", ")))
	}
	return strings.Join(out, "\n")
}

// TestDevices says what is known of the devices of instance types.
func TestDevices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.knowing(t, "")
		for name, want := range map[string]string{
			"g4dn.xlarge": "1 of gpu.nvidia.com in g4dn.xlarge, gpu-0: architecture=Turing, cudaComputeCapability=7.5.0, memory:15Gi, productName=Tesla T4, type=gpu",
			"g6.48xlarge": "8 of gpu.nvidia.com in g6.48xlarge, gpu-0: architecture=Ada Lovelace, brand=Nvidia, cudaComputeCapability=8.9.0, memory:23034Mi, productName=NVIDIA L4, type=gpu\n" +
				"1 of dra.net in g6.48xlarge, efa-0: pciDevice=Elastic Fabric Adapter (EFA), pciVendor=Amazon.com, Inc., rdma=true",
			"p4de.24xlarge": "8 of gpu.nvidia.com in p4de.24xlarge, gpu-0: architecture=Ampere, brand=Nvidia, cudaComputeCapability=8.0.0, memory:80Gi, productName=NVIDIA A100-SXM4-80GB, type=gpu\n" +
				"4 of dra.net in p4de.24xlarge, efa-0: pciDevice=Elastic Fabric Adapter (EFA), pciVendor=Amazon.com, Inc., rdma=true",
			"p5.48xlarge": "8 of gpu.nvidia.com in p5.48xlarge, gpu-0: architecture=Hopper, brand=Nvidia, cudaComputeCapability=9.0.0, memory:81152Mi, productName=NVIDIA H100 80GB HBM3, resource.kubernetes.io/pcieRoot=root-0, type=gpu\n" +
				"32 of dra.net in p5.48xlarge, efa-0: pciDevice=Elastic Fabric Adapter (EFA), pciVendor=Amazon.com, Inc., rdma=true, resource.kubernetes.io/pcieRoot=root-0",
			"g4ad.xlarge": "", // of AMD
			"g2.2xlarge":  "", // of a model that the driver does not know
			"m5.large":    "",
			"none.large":  "",
		} {
			if got := describe(p.Devices(classRef, name)); got != want {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
			}
		}
		again := p.Devices(classRef, "p5.48xlarge")
		if _, err := p.Types(t.Context(), classRef); err != nil || &p.Devices(classRef, "p5.48xlarge")[0] != &again[0] {
			t.Errorf("the same is made twice (%v)", err)
		}
		p.types.devices.drop("default")
		if got := p.Devices(classRef, "p5.48xlarge"); len(got) > 0 {
			t.Errorf("of a class that is gone: %s", describe(got))
		}
	})
}

// TestDevicesWithoutTheGates: each gate is for one driver.
func TestDevicesWithoutTheGates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for name, tc := range map[string]struct {
			nvidia, efa bool
			want        string
		}{
			"none":       {want: ""},
			"NVIDIA GPU": {nvidia: true, want: "gpu.nvidia.com "},
			"EFA":        {efa: true, want: "dra.net "},
		} {
			p := w.provider(t)
			p.opts.NVIDIADevices, p.opts.EFADevices = tc.nvidia, tc.efa
			w.ready(t, p, "default")
			if _, err := p.Types(t.Context(), classRef); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, s := range p.Devices(classRef, "p5.48xlarge") {
				got += s.Driver + " "
			}
			if got != tc.want {
				t.Errorf("%s: slices of %q, want %q", name, got, tc.want)
			}
		}
	})
}
