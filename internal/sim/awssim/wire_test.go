package awssim_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestSocket: the SDK as users configure it, over a real connection.
func TestSocket(t *testing.T) {
	sim, err := awssim.New(awssim.Options{Latency: time.Millisecond, Credentials: awssim.Credentials{AccessKey: "AKID", SecretKey: "secret", SessionToken: "token"}})
	if err != nil {
		t.Fatal(err)
	}
	url, err := sim.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(k, v)
	}
	cfg, err := awsconfig.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ec2.NewFromConfig(cfg).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil {
		t.Error(err)
	}
	region, err := imds.New(imds.Options{Endpoint: url}).GetRegion(t.Context(), nil)
	if err != nil || region.Region != "us-east-1" {
		t.Errorf("metadata: %v, %v", region, err)
	}
	if err := sim.Inject(awssim.Fault{Kind: awssim.FaultCut, Times: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := ec2.NewFromConfig(cfg).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil {
		t.Errorf("the SDK's retry after a cut connection: %v", err)
	}
}

// TestSignatures: only what is signed by the account's key, now, and unchanged is let in.
func TestSignatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.sim.Options().Credentials
	cases := map[string]struct {
		credentials awssim.Credentials
		want        string
	}{
		"the right key":   {good, "ok"},
		"a wrong secret":  {awssim.Credentials{AccessKey: good.AccessKey, SecretKey: "guess"}, "SignatureDoesNotMatch"},
		"a stranger":      {awssim.Credentials{AccessKey: "AKIDSTRANGER", SecretKey: good.SecretKey}, "AuthFailure"},
		"another session": {awssim.Credentials{AccessKey: good.AccessKey, SecretKey: good.SecretKey, SessionToken: "x"}, "InvalidClientTokenId"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ec2.NewFromConfig(config(w.sim, tc.credentials)).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
			if got := outcome(err); got != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

// TestForgery: a request that was changed after it was signed, or signed long ago, or not
// signed at all.
func TestForgery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	good := w.sim.Options().Credentials
	const signed = "Action=DescribeSubnets&Version=2016-11-15"
	for name, tc := range map[string]struct {
		body string
		age  time.Duration
		sign bool
		want int
	}{
		"as signed":     {signed, 0, true, http.StatusOK},
		"another body":  {"Action=DescribeImages&Version=2016-11-15", 0, true, http.StatusForbidden},
		"an hour old":   {signed, time.Hour, true, http.StatusForbidden},
		"not signed":    {signed, 0, false, http.StatusForbidden},
		"from tomorrow": {signed, -24 * time.Hour, true, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://awssim.local/", bytes.NewBufferString(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if tc.sign {
				sign(t, r, good, "ec2", signed, tc.age)
			}
			resp, err := w.sim.Transport().RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != tc.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.want)
			}
		})
	}
}

// sign signs a request as if it had the body and were made a while ago.
func sign(t *testing.T, r *http.Request, c awssim.Credentials, service, body string, age time.Duration) {
	t.Helper()
	at := time.Now().Add(-age) // signatures are judged by the system's clock
	err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: c.AccessKey, SecretAccessKey: c.SecretKey}, r, bodyHash(body), service, "us-east-1", at)
	if err != nil {
		t.Fatal(err)
	}
}

// TestVirtualTime: in a bubble of synctest an account lives in virtual time, with the
// system's clock and without a socket; a long poll ends when the message comes.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim, err := awssim.New(awssim.Options{Latency: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go sim.Run(ctx)
		client := sqs.NewFromConfig(config(sim, sim.Options().Credentials))
		url, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("demo")})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.AfterFunc(7*time.Second, func() { sim.Send("hello") })
		out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, WaitTimeSeconds: 20})
		if err != nil || len(out.Messages) != 1 {
			t.Fatal(out, err)
		}
		if d := time.Since(start); d < 7*time.Second || d > 8*time.Second {
			t.Errorf("the poll took %v, want some more than 7 s", d)
		}
		if out, err = client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, WaitTimeSeconds: 20}); err != nil || len(out.Messages) != 0 {
			t.Errorf("nothing was to come: %v, %v", out, err)
		}
	})
}

func bodyHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
