package awssim_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/userdata"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestPrediction: what the provider says an instance can hold is what the instance reports
// once it has booted from the provider's user data; for every type, every image family and
// several settings of the kubelet. Memory and storage may differ by a mebibyte, because the
// kubelet's tenth is a 32-bit one.
func TestPrediction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *awssim.Options) { o.Unlimited = true })
	infos := w.types(t)
	settings := map[string]struct {
		kubelet string
		raid    bool
	}{
		"no kubelet settings": {},
		"few pods":            {kubelet: `{"maxPods": 20}`},
		"pods by cores":       {kubelet: `{"podsPerCore": 4}`},
		"part of what is reserved, and a share that is kept free": {
			kubelet: `{"kubeReserved": {"cpu": "500m"}, "systemReserved": {"memory": "300Mi"}, "evictionHard": {"memory.available": "5%"}}`,
		},
		"the instance's own disks": {raid: true},
	}
	for _, alias := range []string{"al2@v1", "al2023@latest", "bottlerocket@latest", "windows2019@latest", "windows2022@latest", "windows2025@latest"} {
		for name, with := range settings {
			if isWindows := strings.HasPrefix(alias, "windows"); with.raid && isWindows {
				continue // EKS' images of Windows leave those disks alone
			}
			t.Run(alias+", "+name, func(t *testing.T) {
				t.Parallel()
				spec := &awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias}}}
				if with.raid {
					spec.InstanceStorePolicy = new(awsv1.InstanceStorePolicyRAID0)
				}
				w.predict(t, infos, spec, with.kubelet)
			})
		}
	}
}

func (w *world) types(t *testing.T) []ec2types.InstanceTypeInfo {
	t.Helper()
	var infos []ec2types.InstanceTypeInfo
	for p := ec2.NewDescribeInstanceTypesPaginator(w.ec2, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100)}); p.HasMorePages(); {
		out, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, out.InstanceTypes...)
	}
	return infos
}

// predict compares all types under one class.
func (w *world) predict(t *testing.T, infos []ec2types.InstanceTypeInfo, spec *awsv1.EC2NodeClassSpec, raw string) {
	t.Helper()
	var ext *runtime.RawExtension
	if raw != "" {
		ext = &runtime.RawExtension{Raw: []byte(raw)}
	}
	parsed, err := kubelet.Parse(ext)
	if err != nil {
		t.Fatal(err)
	}
	region := &instance.Region{Name: "us-east-1", MemoryOverhead: 0.075}
	class := &instance.Class{Spec: spec, Status: &awsv1.EC2NodeClassStatus{}, Kubelet: parsed}
	wrong, compared := map[string]int{}, 0
	for i := range infos {
		if instance.Unsuitable(&infos[i], class) != "" {
			continue
		}
		k, err := instance.Settings(&infos[i], region, class)
		if err != nil {
			t.Fatal(err)
		}
		text, err := userdata.Make(&userdata.Node{
			Family: family.Of(spec), Kubelet: k, StorePolicy: spec.InstanceStorePolicy, ImageVersion: "1.46.0",
			Cluster: userdata.Cluster{Name: "demo", Endpoint: "https://x", CA: "Y2E=", CIDR: "172.20.0.0/16", DNS: "172.20.0.10"},
		})
		if err != nil {
			t.Fatal(err)
		}
		name := string(infos[i].InstanceType)
		boots, _, _ := family.Alias(spec)
		node, err := w.sim.Boot(name, boots, []byte(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		compared++
		for _, d := range differences(instance.Type(&infos[i], region, class).Allocatable(), node.Status.Allocatable) {
			if wrong[d.resource]++; wrong[d.resource] == 1 {
				t.Errorf("%s: %s", name, d.text)
			}
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%s differs on %d of %d types", resource, wrong[resource], compared)
	}
}

type difference struct{ resource, text string }

// differences compares a prediction with what a Node reports.
func differences(predicted quantity.List, reported corev1.ResourceList) []difference {
	var out []difference
	for name, q := range reported {
		got, slack := q.Value(), int64(0)
		if name == corev1.ResourceCPU {
			got = q.MilliValue()
		}
		if name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			slack = 1 << 20
		}
		if want := predicted[string(name)]; got-want > slack || want-got > slack {
			out = append(out, difference{string(name), fmt.Sprintf("%s: predicted %d, reported %d", name, want, got)})
		}
	}
	return out
}
