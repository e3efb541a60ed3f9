package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// spans is what a collector of OpenTelemetry has received.
type spans struct {
	mu       sync.Mutex
	received []*tracev1.Span
	services []string
}

// ServeHTTP takes spans as OTLP over HTTP sends them.
func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL, err), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				s.services = append(s.services, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			s.received = append(s.received, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// ended returns the root spans that have come.
func (s *spans) ended() (roots []*tracev1.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.received {
		if span.Name == "provision" {
			roots = append(roots, span)
		}
	}
	return roots
}

// TestABatchIsTraced runs the controller with a collector, as the variables of OpenTelemetry name it.
func TestABatchIsTraced(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	installPool(t, c, 16)
	got := &spans{}
	receiver := httptest.NewServer(got)
	t.Cleanup(receiver.Close)
	startIn(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.URL, "OTEL_SERVICE_NAME=autoscaler", "OTEL_BSP_SCHEDULE_DELAY=100"},
		"controller", "--kubeconfig", cluster.Kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0", "--cloud-provider", "kwok")
	deploy(t, c, 10)
	testkit.Eventually(t, patience, func() error {
		if len(got.ended()) == 0 {
			return fmt.Errorf("no trace has come")
		}
		return nil
	})
	root := got.ended()[0]
	got.mu.Lock()
	defer got.mu.Unlock()
	names := map[string]int{}
	for _, s := range got.received {
		if !bytes.Equal(s.TraceId, root.TraceId) {
			continue
		}
		names[s.Name]++
		if s.Name != "provision" && !bytes.Equal(s.ParentSpanId, root.SpanId) {
			t.Errorf("%s is not below provision", s.Name)
		}
		if s.StartTimeUnixNano < root.StartTimeUnixNano || s.EndTimeUnixNano > root.EndTimeUnixNano || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s lasts from %d to %d, provision from %d to %d", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano, root.StartTimeUnixNano, root.EndTimeUnixNano)
		}
	}
	nodes := names["launch"]
	for name, want := range map[string]int{"provision": 1, "observe": 1, "plan": 1, "register": nodes, "initialize": nodes, "bind": nodes} {
		if names[name] != want || nodes == 0 {
			t.Errorf("there are %d spans %s, want %d; all: %v", names[name], name, want, names)
		}
	}
	if !slices.Contains(got.services, "autoscaler") {
		t.Errorf("the service is %v", got.services)
	}
}

// TestWhereSpansCannotGoIsSaid starts the controller with settings of OpenTelemetry that it cannot follow.
func TestWhereSpansCannotGoIsSaid(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startIn(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		"controller", "--kubeconfig", kubeconfig, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0", "--cloud-provider", "kwok")
	if status := p.awaitEnd(); status != 1 || !strings.Contains(p.String(), `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc", must be http/protobuf`) {
		t.Errorf("status %d:\n%s", status, p)
	}
}
