package operator

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// tracingPatience is how long spans may take to be handed over when the process ends.
const tracingPatience = time.Second

// openTraces returns what follows decisions; nil: nobody asks. The journal is given the arrivals of pods; spans are handed
// over if the environment says where they are to go. The variables, and what they mean, are those of OpenTelemetry's
// specification. The function that it returns hands over what is left.
func openTraces(ctx context.Context, version string, log *slog.Logger, j *journal.Journal) (*observe.Traces, func(), error) {
	wanted := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	if !wanted || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		if j == nil {
			return nil, func() {}, nil
		}
		return observe.NewTraces(noop.NewTracerProvider().Tracer(""), j.Arrived), func() {}, nil
	}
	for variable, only := range map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"} {
		if value := os.Getenv(variable); value != "" && value != only {
			return nil, nil, fmt.Errorf("%s is %q, must be %s; collectors take that on port 4318", variable, value, only)
		}
	}
	// Nothing is sent before there is a span, and nothing is waited for.
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	described, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "dovetail"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		log.Warn("setting ignored", "why", "OTEL_RESOURCE_ATTRIBUTES: "+err.Error())
	}
	otel.SetErrorHandler(&spansLost{log: log})
	// Spans wait in a queue (OTEL_BSP_MAX_QUEUE_SIZE); those that find it full are dropped.
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	ending := context.WithoutCancel(ctx)
	return observe.NewTraces(provider.Tracer("github.com/dovetail-sh/dovetail"), j.Arrived), func() {
		ctx, cancel := context.WithTimeout(ending, tracingPatience)
		defer cancel()
		_ = provider.Shutdown(ctx) // what could not be handed over is lost, as it is in a crash
	}, nil
}

// spansLost logs why spans were lost, once for each reason.
type spansLost struct {
	log  *slog.Logger
	said atomic.Pointer[string]
}

// Handle is called with each error of the exporter.
func (s *spansLost) Handle(err error) {
	why := err.Error()
	if said := s.said.Swap(&why); said == nil || *said != why {
		s.log.Warn("spans were lost", "error", why)
	}
}
