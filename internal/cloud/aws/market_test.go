package aws

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// hosts notes where requests go to, and answers none.
type hosts struct{ seen []string }

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.seen = append(h.seen, r.URL.Host)
	return nil, context.Canceled
}

func TestPriceListIsAskedWhereItIs(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{
		"us-east-1": "us-east-1", "us-west-2": "us-east-1", "ca-central-1": "us-east-1", "sa-east-1": "us-east-1",
		"eu-west-1": "eu-central-1", "ap-southeast-2": "ap-south-1", "cn-north-1": "cn-northwest-1", "us-gov-west-1": "",
	} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { askPrices(t, region, want) })
		})
	}
}

func askPrices(t *testing.T, region, want string) {
	h := &hosts{}
	p, err := New(nil, Options{ClusterName: "demo", Now: time.Now, Log: slog.New(slog.DiscardHandler), Config: aws.Config{
		Region: region, HTTPClient: &http.Client{Transport: h}, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if prices := p.stall.onDemand(t.Context(), nil); len(prices) == 0 {
		t.Error("there are no prices, not even those in the binary")
	}
	if want == "" {
		if len(h.seen) > 0 {
			t.Errorf("asked %v, which has no price list", h.seen)
		}
		return
	}
	if len(h.seen) == 0 || !strings.Contains(h.seen[0], "."+want+".") {
		t.Errorf("asked %v, want the price list of %s", h.seen, want)
	}
}
