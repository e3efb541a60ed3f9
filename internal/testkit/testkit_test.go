package testkit_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

func TestClusterKeepsItsObjectsOverAKillAndAStop(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	want, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get namespace: %v", err)
	}
	for name, end := range map[string]func() error{
		"kill": func() error { cluster.Kill(); return nil },
		"stop": cluster.Stop,
	} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err == nil {
			t.Fatalf("the API server answers after %s", name)
		}
		if err := cluster.Start(); err != nil {
			t.Fatalf("start after %s: %v", name, err)
		}
		got, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("get namespace after %s: %v", name, err)
		}
		if got.UID != want.UID {
			t.Errorf("after %s: namespace has uid %s, want %s", name, got.UID, want.UID)
		}
	}
}

func TestEventuallyRepeatsUntilTheConditionHolds(t *testing.T) {
	t.Parallel()
	calls := 0
	testkit.Eventually(t, time.Minute, func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("check was called %d times, want 3", calls)
	}
}
