package buffer_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/buffer"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

func TestChunks(t *testing.T) {
	t.Parallel()
	pod := quantity.List{"cpu": 500, "memory": 1 << 30, "pods": 1}
	for name, test := range map[string]struct {
		size buffer.Size
		want int64
	}{
		"nothing is said":                             {buffer.Size{}, 0},
		"a number":                                    {buffer.Size{Replicas: new(int64(3))}, 3},
		"a number of none":                            {buffer.Size{Replicas: new(int64(0)), Limits: quantity.List{"cpu": 5000}}, 0},
		"a share, rounded up":                         {buffer.Size{Percentage: new(int64(25)), Scale: new(int64(10))}, 3},
		"a share that divides evenly":                 {buffer.Size{Percentage: new(int64(50)), Scale: new(int64(10))}, 5},
		"a small share is one pod at least":           {buffer.Size{Percentage: new(int64(1)), Scale: new(int64(2))}, 1},
		"a share of no pods":                          {buffer.Size{Percentage: new(int64(50)), Scale: new(int64(0))}, 0},
		"a share of nothing is no size":               {buffer.Size{Percentage: new(int64(50)), Limits: quantity.List{"cpu": 1000}}, 2},
		"more than all":                               {buffer.Size{Percentage: new(int64(250)), Scale: new(int64(2))}, 5},
		"the larger one: the share":                   {buffer.Size{Replicas: new(int64(2)), Percentage: new(int64(50)), Scale: new(int64(10))}, 5},
		"the larger one: the number":                  {buffer.Size{Replicas: new(int64(8)), Percentage: new(int64(50)), Scale: new(int64(10))}, 8},
		"within limits":                               {buffer.Size{Replicas: new(int64(8)), Limits: quantity.List{"cpu": 1999}}, 3},
		"within the tightest limit":                   {buffer.Size{Replicas: new(int64(8)), Limits: quantity.List{"cpu": 2000, "memory": 2 << 30}}, 2},
		"limits alone":                                {buffer.Size{Limits: quantity.List{"cpu": 2000, "memory": 8 << 30}}, 4},
		"a limit of pods":                             {buffer.Size{Limits: quantity.List{"pods": 7}}, 7},
		"a limit of what it does not ask for is none": {buffer.Size{Limits: quantity.List{"gpu": 8}}, 0},
		"such a limit beside a number":                {buffer.Size{Replicas: new(int64(8)), Limits: quantity.List{"gpu": 0}}, 8},
		"a limit below one pod":                       {buffer.Size{Replicas: new(int64(8)), Limits: quantity.List{"cpu": 499}}, 0},
		"a limit below zero":                          {buffer.Size{Replicas: new(int64(8)), Limits: quantity.List{"cpu": -1}}, 0},
		"numbers that are out of all proportion":      {buffer.Size{Percentage: new(int64(math.MaxInt64)), Scale: new(int64(math.MaxInt64))}, math.MaxInt64/400 + 1},
		"numbers below zero, which the API refuses":   {buffer.Size{Replicas: new(int64(-3)), Percentage: new(int64(-1)), Scale: new(int64(3))}, 0},
		"the largest number that the API takes":       {buffer.Size{Replicas: new(int64(math.MaxInt32))}, math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.size.Requests = pod
			if got := test.size.Chunks(); got != test.want {
				t.Errorf("got %d chunks, want %d", got, test.want)
			}
		})
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := buffer.Share([]buffer.Wanted{
		{"a/young", at.Add(time.Hour), 1000},
		{"a/old", at, math.MaxInt64},
		{"a/none", at, 0},
		{"b/1", at, 900},
		{"b/2", at, 1000},
		{"b/3", at, 1000},
		{"b/4", at, 1000},
		{"b/5", at, 1000},
	})
	if diff := cmp.Diff([]int{0, 1000, 0, 900, 1000, 1000, 1000, 100}, got); diff != "" {
		t.Errorf("(-want, +got):\n%s", diff)
	}
	many := make([]buffer.Wanted, buffer.BuffersMax+3)
	for i := range many {
		many[i].Chunks = 1
	}
	sum := 0
	for _, n := range buffer.Share(many) {
		sum += n
	}
	if sum != buffer.BuffersMax {
		t.Errorf("%d buffers of one chunk have %d chunks, want %d", len(many), sum, buffer.BuffersMax)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		room   plan.BufferRoom
		chunks int64
		want   buffer.Condition
	}{
		"all fit": {
			plan.BufferRoom{Chunks: 3, Held: []plan.Held{{Node: "n1", Count: 1}, {Node: "n2", Count: 2}}},
			3,
			buffer.Condition{Holds: true, Reason: "FitsExistingCapacity", Message: "there is room for all 3 pods"},
		},
		"nodes are launched": {
			plan.BufferRoom{Chunks: 3, Held: []plan.Held{{Node: "n1", Count: 1}}, Launched: 2},
			3,
			buffer.Condition{Reason: "RequiresNewCapacity", Message: "there is room for 1 of 3 pods; nodes are launched for 2"},
		},
		"a limit": {
			plan.BufferRoom{Chunks: 3, Launched: 2, Why: verdict.Of(verdict.PoolLimitReached, "pool a", "limit of 4 cpu reached")},
			3,
			buffer.Condition{Reason: "RequiresNewCapacity", Message: "there is room for 0 of 3 pods; nodes are launched for 2; there is none for 1: pool a: limit of 4 cpu reached"},
		},
		"too many to plan": {
			plan.BufferRoom{Chunks: 1000, Held: []plan.Held{{Node: "n1", Count: 1000}}},
			4000,
			buffer.Condition{Reason: "RequiresNewCapacity", Message: "there is room for 1000 of 4000 pods; 3000 are not planned: at most 1000 pods of one buffer are, 5000 of all, and 500 buffers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, buffer.Provisioning(&test.room, test.chunks)); diff != "" {
				t.Errorf("(-want, +got):\n%s", diff)
			}
		})
	}
	if c, _ := buffer.Unplannable("no template", 3); c.Reason != buffer.NotReadyForProvisioning || c.Holds {
		t.Errorf("a buffer that is not ready says %+v", c)
	}
	if c, _ := buffer.Unplannable("", 0); c.Reason != buffer.BufferEmpty || c.Holds {
		t.Errorf("an empty buffer says %+v", c)
	}
	if c, is := buffer.Unplannable("", 1); is {
		t.Errorf("a buffer that a plan decides about says %+v", c)
	}
}
