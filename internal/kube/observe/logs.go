package observe

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Messages of log lines that tools for Karpenter's logs look for, but for LogDeleting, which is ours.
const (
	LogFoundPods    = "found provisionable pod(s)"
	LogComputed     = "computed new nodeclaim(s) to fit pod(s)"
	LogCreated      = "created nodeclaim"
	LogLaunched     = "launched nodeclaim"
	LogRegistered   = "registered nodeclaim"
	LogInitialized  = "initialized nodeclaim"
	LogDisrupting   = "disrupting node(s)"
	LogAnnotated    = "annotated nodeclaim"
	LogTainted      = "tainted node"
	LogDeletedNode  = "deleted node"
	LogDeletedClaim = "deleted nodeclaim"
	LogDeleting     = "deleting nodeclaim"
	LogInterrupted  = "initiating delete from interruption message"
)

// Named returns an object as a log line names it, under its kind; nothing if it has no name.
func Named(kind, name string) slog.Attr {
	if name == "" {
		return slog.Attr{}
	}
	return slog.Group(kind, slog.String("name", name))
}

// Amounts returns resources as a log line shows them: by name, in Kubernetes' notation.
func Amounts(key string, amounts quantity.List) slog.Attr {
	var attrs []any
	list := translate.ResourceList(amounts)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		attrs = append(attrs, slog.String(string(name), q.String()))
	}
	if len(attrs) == 0 { // a handler leaves out a group without members
		return slog.Any(key, struct{}{})
	}
	return slog.Group(key, attrs...)
}

// Created returns what a line LogCreated says of a NodeClaim that was created to provision capacity.
func Created(claim string, launch *plan.Launch) []any {
	return []any{
		Named("NodePool", launch.Pool), Named("NodeClaim", claim), Amounts("requests", launch.Requests), "instance-types", FirstAnd(launch.Types),
		"claim", claim, "pool", launch.Pool, "pods", len(launch.Pods), "instance_types_total", len(launch.Types),
		"price_hourly", launch.PriceHourly, "reason", ReasonProvisioned,
	}
}

// OfDecision returns a logger whose lines name a decision by its ID; empty: they name none.
func OfDecision(log *slog.Logger, decision string) *slog.Logger {
	if decision == "" {
		return log
	}
	return log.With("decision", decision)
}

// namesLogged is how many pods or instance types a log line names.
const namesLogged = 5

// FirstAnd lists the first few names and says how many others there are.
func FirstAnd(names []string) string {
	if others := len(names) - namesLogged; others > 0 {
		return fmt.Sprintf("%s and %d other(s)", strings.Join(names[:namesLogged], ", "), others)
	}
	return strings.Join(names, ", ")
}

// Logged writes a line of level Info under one of these messages. Keys may be Karpenter's, which are
// not all in snake case, and the line's place is the caller's.
//
//nolint:contextcheck,nolintlint // a handler takes nothing from the context; contextcheck heeds this, and nolintlint does not see it
func Logged(log *slog.Logger, message string, args ...any) {
	ctx := context.Background()
	if !log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	var caller [1]uintptr
	runtime.Callers(2, caller[:])                                       // without this function and Callers
	r := slog.NewRecord(time.Now(), slog.LevelInfo, message, caller[0]) //nolint:forbidigo // as slog.Logger does
	r.Add(args...)
	_ = log.Handler().Handle(ctx, r) // as slog.Logger does
}
