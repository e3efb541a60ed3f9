package observe

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// seriesAtOnce is how many series of a family are in memory at once.
const seriesAtOnce = 256

// Family is a gauge with a series for each of many objects. The series are made while they are
// written: all of them together would take more memory than the objects do.
type Family struct {
	Name, Help string
	Labels     []string
	// Each calls write for each series, with its value and the values of its labels, of which write
	// keeps no slice.
	Each func(write func(value float64, labels ...string))
}

// Source has families. Those that it has now are asked for at each scrape.
type Source interface{ Families() []Family }

// Scrape answers a scrape. It writes what a registry has gathered, then the families of its sources,
// in a text format: that of OpenMetrics, if the client accepts it.
type Scrape struct {
	gatherer prometheus.Gatherer
	level    string

	mu      sync.Mutex
	sources []Source // guarded by mu
}

// NewScrape returns a scrape of what g gathers and a level serves.
func NewScrape(g prometheus.Gatherer, level string) *Scrape {
	return &Scrape{gatherer: AtLevel(g, level), level: level}
}

// Add has the families of sources served, too.
func (s *Scrape) Add(sources ...Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, sources...)
}

// ServeHTTP answers with the metrics, or those named by the query's parameter name[].
func (s *Scrape) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	gathered, err := s.gatherer.Gather()
	if err != nil {
		http.Error(w, fmt.Sprintf("gather metrics: %v", err), http.StatusInternalServerError)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtText)
	w.Header().Set("Content-Type", string(format))
	var body io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		zipped, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
		defer func() { _ = zipped.Close() }()               // whoever does not read to the end, misses the end
		body = zipped
	}
	names := r.URL.Query()["name[]"]
	asked := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	_ = s.write(body, format, gathered, asked) // the client has gone away
}

// write writes the families of which the name is asked for.
func (s *Scrape) write(w io.Writer, format expfmt.Format, gathered []*dto.MetricFamily, asked func(name string) bool) error {
	e := &encoder{w: w}
	e.text = expfmt.NewEncoder(&e.buffer, format)
	for _, family := range gathered {
		if !asked(family.GetName()) {
			continue
		}
		if err := e.text.Encode(family); err != nil {
			return err
		}
		if err := e.flush(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	sources := slices.Clone(s.sources)
	s.mu.Unlock()
	for _, source := range sources {
		for _, family := range source.Families() {
			match, served := matchingAt(s.level, family.Name)
			if !served || !asked(family.Name) {
				continue
			}
			if err := e.encode(&family, match); err != nil {
				return err
			}
		}
	}
	if end, ok := e.text.(expfmt.Closer); ok {
		if err := end.Close(); err != nil {
			return err
		}
	}
	return e.flush()
}

// encoder writes families. It is used by one scrape.
type encoder struct {
	w      io.Writer
	buffer bytes.Buffer
	text   expfmt.Encoder // into buffer
}

func (e *encoder) flush() error {
	_, err := e.buffer.WriteTo(e.w)
	return err
}

// encode writes the series of a family that match, some of them at once.
func (e *encoder) encode(family *Family, match matching) error {
	pool := newSeries(family.Labels)
	out := &dto.MetricFamily{Name: &family.Name, Help: &family.Help, Type: dto.MetricType_GAUGE.Enum()}
	begun := false
	write := func() error {
		if err := e.text.Encode(out); err != nil {
			return err
		}
		out.Metric = out.Metric[:0]
		for begun && bytes.HasPrefix(e.buffer.Bytes(), []byte("#")) { // the header, which stands at the beginning
			if _, err := e.buffer.ReadBytes('\n'); err != nil {
				return err
			}
		}
		begun = true
		return e.flush()
	}
	var failed error
	family.Each(func(value float64, labels ...string) {
		if failed != nil {
			return
		}
		series := pool[len(out.Metric)].set(value, labels)
		if !match.matches(series) {
			return
		}
		if out.Metric = append(out.Metric, series); len(out.Metric) == len(pool) {
			failed = write()
		}
	})
	if failed == nil && len(out.Metric) > 0 {
		failed = write()
	}
	return failed
}

// series is one series, which is used again for others of its family.
type series struct {
	metric dto.Metric
	value  float64
	labels []string
}

// newSeries returns seriesAtOnce series with the names of the labels.
func newSeries(names []string) []*series {
	pool := make([]*series, seriesAtOnce)
	for i := range pool {
		s := &series{labels: make([]string, len(names))}
		s.metric.Gauge = &dto.Gauge{Value: &s.value}
		for l := range names {
			s.metric.Label = append(s.metric.Label, &dto.LabelPair{Name: &names[l], Value: &s.labels[l]})
		}
		pool[i] = s
	}
	return pool
}

func (s *series) set(value float64, labels []string) *dto.Metric {
	s.value = value
	copy(s.labels, labels)
	return &s.metric
}
