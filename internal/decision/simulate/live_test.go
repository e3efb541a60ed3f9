package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// paged answers with so many pods, two a page, and fails for lists of one type. As a
// client does, it adds to the list that it is given.
type paged struct {
	client.Reader
	pods  int
	fails map[string]error
}

func (p *paged) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := p.fails[fmt.Sprintf("%T", list)]; err != nil {
		return err
	}
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return nil
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	var from int
	_, _ = fmt.Sscan(o.Continue, &from)
	for i := from; i < min(from+2, p.pods); i++ {
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Annotations: map[string]string{"secret": "x"}}})
	}
	if from+2 < p.pods {
		pods.Continue = fmt.Sprint(from + 2)
	}
	return nil
}

func TestObjectsReadsEveryPageOnce(t *testing.T) {
	t.Parallel()
	objects, err := Objects(t.Context(), &paged{pods: 5})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.GetName())
		if len(o.GetAnnotations()) > 0 {
			t.Errorf("%s has annotations %v", o.GetName(), o.GetAnnotations())
		}
	}
	if got := strings.Join(names, " "); got != "0 1 2 3 4" {
		t.Errorf("read %s", got)
	}
}

// TestObjectsReadsWhatBuffersName: of the workloads, those that a CapacityBuffer names, once each.
func TestObjectsReadsWhatBuffersName(t *testing.T) {
	t.Parallel()
	buffer := func(name string, spec autoscalingv1beta1.CapacityBufferSpec) *autoscalingv1beta1.CapacityBuffer {
		return &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}
	}
	template := func(name string) *corev1.PodTemplate {
		return &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "a", Image: "secret", Command: []string{"secret"}}},
		}}}
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	scalable := &autoscalingv1beta1.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: "web"}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpenterv1.AddToScheme, autoscalingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		template("runner"), template("other"), web,
		buffer("a", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "runner"}}),
		buffer("b", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "runner"}}),
		buffer("c", autoscalingv1beta1.CapacityBufferSpec{ScalableRef: scalable}),
		buffer("d", autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "nobody"}}),
	).Build()
	objects, err := Objects(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, fmt.Sprintf("%T %s", o, o.GetName()))
		if p, is := o.(*corev1.PodTemplate); is && (p.Template.Spec.Containers[0].Image != "none" || p.Template.Spec.Containers[0].Command != nil) {
			t.Errorf("how containers are run is left: %+v", p.Template.Spec.Containers)
		}
	}
	want := []string{
		"*v1beta1.CapacityBuffer a", "*v1beta1.CapacityBuffer b", "*v1beta1.CapacityBuffer c", "*v1beta1.CapacityBuffer d",
		"*v1.PodTemplate runner", "*v1.Deployment web",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was read (-want +got):\n%s", diff)
	}
}

func TestObjectsSaysWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	pools := fmt.Sprintf("%T", &karpenterv1.NodePoolList{})
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a kind that the cluster does not know": {&meta.NoKindMatchError{}, "read NodePools: the cluster does not know them; install the definitions"},
		"a kind that must not be read":          {apierrors.NewForbidden(schema.GroupResource{Resource: "nodepools"}, "", errors.New("no")), "the account needs list on them"},
		"a cluster that is away":                {errors.New("connection refused"), "read NodePools: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Live(t.Context(), &paged{fails: map[string]error{pools: tc.err}}, "x", Catalog{}, time.Unix(0, 0))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
	groups := fmt.Sprintf("%T", &schedulingv1beta1.PodGroupList{})
	if objects, err := Objects(t.Context(), &paged{pods: 1, fails: map[string]error{groups: &meta.NoKindMatchError{}}}); err != nil || len(objects) != 1 {
		t.Errorf("a cluster without PodGroups: %d objects, error %v", len(objects), err)
	}
	if _, err := Live(t.Context(), &paged{}, "x", Catalog{}, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "the cluster has no NodePools") {
		t.Errorf("a cluster without pools: %v", err)
	}
}
