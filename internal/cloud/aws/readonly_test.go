package aws

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestReadOnly has a provider that only reads beside one that launches: it knows the same instance types, and nothing
// that it is asked for changes the account or a node class.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		active := w.provider(t)
		opts := *active.opts
		opts.ReadOnly = true
		reads, err := New(w.api, opts)
		if err != nil {
			t.Fatal(err)
		}
		unknown, err := reads.Types(t.Context(), classRef) // nobody has resolved the class
		if err != nil || len(unknown) == 0 {
			t.Fatalf("%d instance types of a class without status, error %v", len(unknown), err)
		}
		class := &awsv1.EC2NodeClass{}
		if err := w.api.Get(t.Context(), named("default"), class); err != nil || len(class.Status.AMIs)+len(class.Status.Conditions)+len(class.Finalizers)+len(class.Annotations) > 0 {
			t.Errorf("the class has changed: %+v, error %v", class, err)
		}
		if wrote := writes(w.sim); len(wrote) > 0 {
			t.Errorf("to know instance types it called %v", wrote)
		}

		w.ready(t, active, "default")
		types, err := active.Types(t.Context(), classRef)
		if err != nil || len(types) != len(unknown) {
			t.Errorf("%d instance types, %d without the status of the class, error %v", len(types), len(unknown), err)
		}
		ids := launchIDs(t, active, requests(t, active, 1, onDemand))
		if err := w.api.Get(t.Context(), named("default"), class); err != nil {
			t.Fatal(err)
		}
		before, version := writes(w.sim), class.ResourceVersion

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- reads.Start(ctx) }()
		time.Sleep(profilesEvery + time.Minute)
		for _, r := range reads.Launch(t.Context(), requests(t, active, 1, onDemand)) {
			refused(t, "launch", r.Err)
		}
		for _, id := range ids {
			refused(t, "terminate", reads.Terminate(t.Context(), id))
		}
		_, err = reads.clients.EC2.RunInstances(t.Context(), &ec2.RunInstancesInput{DryRun: new(true), MinCount: new(int32(1)), MaxCount: new(int32(1))})
		refused(t, "dry run", err)
		_, err = reads.clients.SQS.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: new("https://sqs.us-east-1.amazonaws.com/1/demo")})
		refused(t, "message of the queue", err)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if after := writes(w.sim); !maps.Equal(before, after) {
			t.Errorf("the account was called for %v, before for %v", after, before)
		}
		if err := w.api.Get(t.Context(), named("default"), class); err != nil || class.ResourceVersion != version {
			t.Errorf("the class has changed: %+v, error %v", class, err)
		}
	})
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "was not sent: this controller only observes") {
		t.Errorf("%s: error %v", what, err)
	}
}

// writes returns the calls of an account that change something.
func writes(sim *awssim.Sim) map[string]int {
	calls := sim.Calls()
	maps.DeleteFunc(calls, func(name string, _ int) bool {
		_, operation, _ := strings.Cut(name, ":")
		return strings.HasPrefix(operation, "Describe") || strings.HasPrefix(operation, "Get") || strings.HasPrefix(operation, "List")
	})
	return calls
}
