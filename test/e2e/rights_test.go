package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// serviceAccount is who the controller is by deploy/kubernetes.
const serviceAccount = "system:serviceaccount:kube-system:dovetail"

// asInstalled returns a kubeconfig for a controller with the rights that deploy/kubernetes gives
// it, with those in the directories named there besides, and no others.
func asInstalled(t *testing.T, cluster *testkit.Cluster, c client.Client, besides ...string) (kubeconfig string) {
	t.Helper()
	return asAccount(t, cluster, c, serviceAccount, append([]string{"."}, besides...)...)
}

// asAccount returns a kubeconfig for a service account with the rights in directories of deploy/kubernetes.
func asAccount(t *testing.T, cluster *testkit.Cluster, c client.Client, account string, dirs ...string) (kubeconfig string) {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, dir := range dirs {
		more, err := demo.Manifests(os.DirFS(filepath.Join("..", "..", "deploy", "kubernetes", dir)))
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, more...)
	}
	for _, o := range objects {
		to := client.NewDryRunClient(c) // the controller itself is one of ours
		if strings.Contains(o.GetAPIVersion(), "rbac") || o.GetKind() == "ServiceAccount" {
			to = c
		}
		if err := demo.Apply(t.Context(), to, o); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = account
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
