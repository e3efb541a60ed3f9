package awssim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"
)

// operations lists everything that awssim can do, by service and name.
func (s *Sim) operations() map[string]operation {
	all := map[string]operation{}
	for service, part := range map[string]map[string]operation{
		"ec2": s.ec2Operations(), "iam": s.iam.operations(), "sqs": s.sqs.operations(),
		"sts":             {"GetCallerIdentity": s.iam.callerIdentity},
		"ssm":             {"GetParameter": s.ssm.getParameter},
		"pricing":         {"GetProducts": s.prices.getProducts},
		"eks":             {"DescribeCluster": s.eks.describeCluster, "ListNodegroups": s.eks.listNodeGroups, "DescribeNodegroup": s.eks.describeNodeGroup},
		"arc-zonal-shift": {"GetManagedResource": s.eks.getManagedResource},
		"autoscaling":     {"DescribeAutoScalingGroups": s.base.describeScalingGroups},
	} {
		for name, op := range part {
			all[service+":"+name] = op
		}
	}
	return all
}

// ec2Operations lists EC2's operations by name.
func (s *Sim) ec2Operations() map[string]operation {
	return map[string]operation{
		"DescribeInstanceTypes":          s.catalog.describeTypes,
		"DescribeInstanceTypeOfferings":  s.catalog.describeOfferings,
		"DescribeSubnets":                s.network.describeSubnets,
		"DescribeSecurityGroups":         s.network.describeGroups,
		"DescribeImages":                 s.images.describeImages,
		"DescribeCapacityReservations":   s.reservations.describeReservations,
		"DescribePlacementGroups":        s.placements.describePlacements,
		"DescribeLaunchTemplates":        s.templates.describeTemplates,
		"DescribeLaunchTemplateVersions": s.templates.describeVersions,
		"CreateLaunchTemplate":           s.templates.createTemplate,
		"DeleteLaunchTemplate":           s.templates.deleteTemplate,
		"CreateFleet":                    s.fleets.createFleet,
		"RunInstances":                   s.fleets.runInstances,
		"DescribeInstances":              s.instances.describeInstances,
		"RebootInstances":                s.instances.rebootInstances,
		"TerminateInstances":             s.instances.terminateInstances,
		"CreateTags":                     s.tagging.createTags,
		"DescribeSpotPriceHistory":       s.prices.describeSpotPrices,
		"DescribeInstanceStatus":         s.instances.describeStatus,
	}
}

// Handler serves all services on one host: the scope of the
// signature, the target header or the path says which one is meant.
func (s *Sim) Handler() http.Handler {
	ops := s.operations()
	mux := http.NewServeMux()
	mux.HandleFunc("/latest/", s.network.serveMetadata)
	mux.HandleFunc("/_awssim/", s.serveControl)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(ops, w, r) })
	return mux
}

// Listen serves on a port of loopback until ctx ends, and ticks. It returns the URL.
func (s *Sim) Listen(ctx context.Context, address string) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("awssim: %w", err)
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	go s.Run(ctx)
	return "http://" + l.Addr().String(), nil
}

// Transport carries requests to the Sim without a socket. A connection that a fault cuts
// is an error, as on the wire.
func (s *Sim) Transport() http.RoundTripper { return transport{s.Handler()} }

type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				panic(p)
			}
			resp, err = nil, io.ErrUnexpectedEOF
		}
	}()
	in := r.Clone(r.Context())
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &recorder{status: http.StatusOK, header: http.Header{}}
	t.handler.ServeHTTP(w, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// recorder keeps an answer.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) { w.status = status }

func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

func (s *Sim) serve(ops map[string]operation, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	s.base.clock.Sleep(r.Context(), s.latency())
	c, err := parseCall(r, body)
	if s.breaks(FaultDown, c) {
		panic(http.ErrAbortHandler)
	}
	if err == nil {
		err = s.admit(c, r, body)
	}
	var answer any
	if err == nil {
		op := ops[c.service+":"+c.operation]
		if op == nil {
			err = s.unknownOperation(c)
		} else {
			answer, err = s.perform(op, c)
		}
	}
	if err == nil && s.breaks(FaultCut, c) {
		panic(http.ErrAbortHandler)
	}
	s.count(c, err)
	writeAnswer(w, c, answer, err)
}

// perform runs one operation under the lock. Long polls wait outside of it.
func (s *Sim) perform(op operation, c *call) (any, error) {
	for {
		s.mu.Lock()
		s.base.catchUp()
		c.now = s.base.clock.Now()
		answer, err := op(c)
		s.mu.Unlock()
		var wait *tryAgain
		if !errors.As(err, &wait) {
			return answer, err
		}
		s.base.clock.Sleep(c.ctx, wait.after)
	}
}

// latency draws the time of one answer: lognormal, its 99th hundredth five times the median.
func (s *Sim) latency() time.Duration {
	if s.base.opts.Latency == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const sigma = 0.692 // ln 5 / 2.326
	return time.Duration(float64(s.base.opts.Latency) * math.Exp(sigma*s.base.rng.NormFloat64()))
}

func (s *Sim) unknownOperation(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unknown) < unknownMax {
		s.unknown = append(s.unknown, c.service+":"+c.operation)
	}
	return fail("InvalidAction", "The action %s is not valid for this web service.", c.operation)
}

// count counts the call for Calls and Refused.
func (s *Sim) count(c *call, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.service + ":" + c.operation
	s.calls[name]++
	var refusal *apiError
	if errors.As(err, &refusal) {
		s.base.refused[name+" "+refusal.code]++
	}
}

// writeAnswer writes what the service's protocol wants.
func writeAnswer(w http.ResponseWriter, c *call, answer any, err error) {
	refusal := &apiError{}
	switch {
	case err == nil:
		refusal = nil
	case !errors.As(err, &refusal):
		refusal = &apiError{http.StatusInternalServerError, "InternalError", err.Error()}
	}
	w.Header().Set("X-Amzn-Requestid", c.requestID)
	if isXML(c.service) {
		writeXML(w, c, answer, refusal)
		return
	}
	contentType := "application/x-amz-json-1.1"
	if c.service == "sqs" {
		contentType = "application/x-amz-json-1.0"
	}
	w.Header().Set("Content-Type", contentType)
	if refusal != nil {
		w.Header().Set("X-Amzn-Errortype", refusal.code)
		w.WriteHeader(refusal.status)
		answer = map[string]any{"__type": refusal.code, "message": refusal.message}
	}
	// A caller that is gone does not read the answer.
	_ = json.NewEncoder(w).Encode(answer)
}

func isXML(service string) bool {
	return service == "ec2" || service == "iam" || service == "sts" || service == "autoscaling" || service == ""
}

func writeXML(w http.ResponseWriter, c *call, answer any, refusal *apiError) {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	status := http.StatusOK
	switch {
	case refusal != nil && c.service == "ec2":
		status = refusal.status
		appendXML(&b, "Response", fields{
			{"Errors", fields{{"Error", fields{{"Code", refusal.code}, {"Message", refusal.message}}}}}, {"RequestID", c.requestID},
		})
	case refusal != nil:
		status = refusal.status
		appendXML(&b, "ErrorResponse", fields{
			{"Error", fields{{"Type", "Sender"}, {"Code", refusal.code}, {"Message", refusal.message}}}, {"RequestId", c.requestID},
		})
	case c.service == "ec2":
		appendXML(&b, c.operation+"Response", append(fields{{"requestId", c.requestID}}, answer.(fields)...))
	default:
		appendXML(&b, c.operation+"Response", fields{
			{c.operation + "Result", answer}, {"ResponseMetadata", fields{{"RequestId", c.requestID}}},
		})
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
