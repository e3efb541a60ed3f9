package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

const (
	dashboardDir = "../../deploy/charts/karpenter/dashboards"
	// step is the distance of the points of a panel, interval what Grafana puts in for $__rate_interval.
	step, interval = 15 * time.Second, "1m"
)

func TestDashboardsAreUpToDate(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(dashboardDir + "/*.json")
	if err != nil || len(files) != len(dashboards()) {
		t.Errorf("%s has %d dashboards, want %d: %v", dashboardDir, len(files), len(dashboards()), err)
	}
	for _, d := range dashboards() {
		want, err := d.json()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dashboardDir, d.Name+".json"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.json is not what the generator writes: run make dashboards (%v)", d.Name, err)
		}
	}
}

// dashboardModel is what is checked of a dashboard's JSON.
type dashboardModel struct {
	UID, Title, Description string
	SchemaVersion           int
	Templating              struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panelModel
}

type panelModel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ Type, UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ Type, UID string }
	}
}

func readDashboards(t *testing.T) map[string]*dashboardModel {
	t.Helper()
	files, err := filepath.Glob(dashboardDir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dashboardModel{}
	for _, file := range files {
		m := &dashboardModel{}
		if err := json.Unmarshal([]byte(readFile(t, file)), m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = m
	}
	return all
}

func TestDashboardsAreWellFormed(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for file, d := range readDashboards(t) {
		if d.UID == "" || uids[d.UID] || d.Title == "" || d.Description == "" || d.SchemaVersion < 39 {
			t.Errorf("%s: uid %q, title %q, description %q, schemaVersion %d", file, d.UID, d.Title, d.Description, d.SchemaVersion)
		}
		uids[d.UID] = true
		if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Name != "datasource" {
			t.Errorf("%s: the first variable is not the data source: %+v", file, d.Templating.List)
		}
		for _, fault := range faults(d.Panels) {
			t.Errorf("%s: %s", file, fault)
		}
	}
}

// faults returns what is wrong with panels: a text that is missing, an id or a place that is taken.
func faults(panels []panelModel) (found []string) {
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for i := range panels {
		p := &panels[i]
		say := func(format string, args ...any) { found = append(found, p.Title+": "+fmt.Sprintf(format, args...)) }
		if ids[p.ID] || p.ID == 0 {
			say("id %d is taken", p.ID)
		}
		ids[p.ID] = true
		pos := p.GridPos
		if pos.W <= 0 || pos.H <= 0 || pos.X < 0 || pos.X+pos.W > gridWidth {
			say("its place is %+v", pos)
		}
		for x := pos.X; x < pos.X+pos.W; x++ {
			for y := pos.Y; y < pos.Y+pos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" && other != p.Title {
					say("overlaps %s", other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			say("title, description, unit or query is missing")
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.Datasource.UID != "${datasource}" || q.LegendFormat == "" {
				say("query %+v", q)
			}
			refs[q.RefID] = true
		}
		if p.Datasource.UID != "${datasource}" {
			say("data source %q", p.Datasource.UID)
		}
	}
	return found
}

func TestFaultsOfPanelsAreFound(t *testing.T) {
	t.Parallel()
	good := func() []panelModel {
		var m dashboardModel
		d := dashboard{Name: "a", Rows: []row{{"R", []panel{
			{Title: "A", Kind: "stat", Unit: "s", Description: "A.", Queries: []query{{"up", "a"}}},
			{Title: "B", Kind: "timeseries", Unit: "s", Description: "B.", Queries: []query{{"up", "a"}, {"up", "b"}}},
			{Title: "C", Kind: "table", Unit: "s", Description: "C.", Queries: []query{{"up", "a"}}},
		}}}}
		text, err := d.json()
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.Panels
	}
	if found := faults(good()); len(found) > 0 {
		t.Errorf("good panels have faults: %q", found)
	}
	for name, spoil := range map[string]func([]panelModel){
		"id":          func(p []panelModel) { p[2].ID = p[1].ID },
		"overlap":     func(p []panelModel) { p[2].GridPos.X-- },
		"outside":     func(p []panelModel) { p[2].GridPos.X++ },
		"unit":        func(p []panelModel) { p[1].FieldConfig.Defaults.Unit = "" },
		"description": func(p []panelModel) { p[1].Description = "" },
		"data source": func(p []panelModel) { p[1].Datasource.UID = "prometheus" },
		"query":       func(p []panelModel) { p[2].Targets[1].RefID = "A" },
	} {
		panels := good()
		spoil(panels)
		if len(faults(panels)) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

// TestEveryPanelShowsTheRecordedRun evaluates each query over the recorded run, with everything chosen:
// it names only what there is, it returns values, and they have the labels of the legend.
func TestEveryPanelShowsTheRecordedRun(t *testing.T) {
	t.Parallel()
	recording := readRecording(t)
	known, engine := newVocabulary(t), newEngine(t)
	db := promqltest.LoadedStorage(t, recording)
	end := recordedFor(t, db)
	for file, d := range readDashboards(t) {
		for _, v := range d.Templating.List[1:] {
			checkVariable(t, file, v.Name, v.Definition, known)
		}
		for i := range d.Panels {
			for _, q := range d.Panels[i].Targets {
				where := file + ": " + d.Panels[i].Title + ": " + q.RefID
				expr := chosen(d, q.Expr)
				e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
				if err != nil {
					t.Errorf("%s: %v", where, err)
					continue
				}
				if words := known.unknown(e); len(words) > 0 {
					t.Errorf("%s: nothing has %v", where, words)
				}
				if err := shows(t, engine, db, expr, q.LegendFormat, end); err != nil {
					t.Errorf("%s: %v in %s", where, err, expr)
				}
			}
		}
	}
}

// chosen returns an expression with every value chosen of every variable.
func chosen(d *dashboardModel, expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", interval)
	for _, v := range d.Templating.List {
		expr = strings.ReplaceAll(expr, "$"+v.Name, ".*")
	}
	return expr
}

func checkVariable(t *testing.T, file, name, definition string, known vocabulary) {
	t.Helper()
	m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(definition)
	if m == nil || m[2] != name || !known[m[1]][m[2]] {
		t.Errorf("%s: variable %s: nothing has %s", file, name, definition)
	}
}

// shows returns an error unless the expression has a value at some time of the run, and each of its
// series the labels that the legend names.
func shows(t *testing.T, engine *promql.Engine, db storage.Queryable, expr, legend string, end time.Time) error {
	t.Helper()
	q, err := engine.NewRangeQuery(t.Context(), db, nil, expr, time.Unix(0, 0), end, step)
	if err != nil {
		return err
	}
	defer q.Close()
	r := q.Exec(t.Context())
	matrix, err := r.Matrix()
	if err != nil {
		return err
	}
	has := false
	for _, s := range matrix {
		for _, p := range s.Floats {
			has = has || !math.IsNaN(p.F)
		}
		for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
			if !s.Metric.Has(label[1]) && !mayBeEmpty(label[1]) {
				return fmt.Errorf("series %s has no %s", s.Metric, label[1])
			}
		}
	}
	if !has {
		return fmt.Errorf("no value at all")
	}
	return nil
}

// mayBeEmpty reports whether some series of a metric have an empty label, which Prometheus drops.
func mayBeEmpty(label string) bool {
	return label == "nodepool" || label == "zone" || label == "capacity_type"
}

// recordedFor returns the time of the last scrape.
func recordedFor(t *testing.T, db storage.Queryable) time.Time {
	t.Helper()
	q, err := db.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	up := labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "up")
	var last int64
	for set := q.Select(t.Context(), false, nil, up); set.Next(); {
		for it := set.At().Iterator(nil); it.Next() != 0; {
			last, _ = it.At()
		}
	}
	if last < time.Minute.Milliseconds() {
		t.Fatalf("the recording ends after %d ms", last)
	}
	return time.UnixMilli(last)
}
