package main

import (
	"context"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

const ruleDir = "../../deploy/charts/karpenter/rules"

// alertTest is one alert of testdata/alerts.yaml: series with which it fires, and others with which it
// does not.
type alertTest struct {
	Alert string `json:"alert"`
	// Why says what the silent case is about.
	Why   string `json:"why"`
	Fires struct {
		At     string            `json:"at"`
		Every  string            `json:"every"`
		Series string            `json:"series"`
		Labels map[string]string `json:"labels"`
		// Says is a part of the description.
		Says string `json:"says"`
	} `json:"fires"`
	Silent struct {
		At     string `json:"at"`
		Every  string `json:"every"`
		Series string `json:"series"`
	} `json:"silent"`
}

func ruleFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"/*.yaml", "/legacy/*.yaml"} {
		found, err := filepath.Glob(ruleDir + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no %s: %v", ruleDir, pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// allRules returns the rules of all files.
func allRules(t testing.TB) (all []rulefmt.Rule) {
	t.Helper()
	for _, file := range ruleFiles(t) {
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, g := range groups.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// recordedByRules returns the labels of the metrics that rules record.
func recordedByRules(t testing.TB) map[string]map[string]bool {
	t.Helper()
	known := map[string]map[string]bool{}
	for _, r := range allRules(t) {
		if r.Record != "" {
			known[r.Record] = map[string]bool{"reason": true, "nodepool": true}
		}
	}
	return known
}

func TestRulesNameOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	known, names := newVocabulary(t), map[string]bool{}
	for _, r := range allRules(t) {
		name := r.Record + r.Alert
		if names[name] {
			t.Errorf("there are two rules %s", name)
		}
		names[name] = true
		e, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		if words := known.unknown(e); len(words) > 0 {
			t.Errorf("%s: nothing has %v", name, words)
		}
	}
}

// TestAlertsHaveTheirSections: the runbook has a section for each alert, and no others.
func TestAlertsHaveTheirSections(t *testing.T) {
	t.Parallel()
	var sections, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(readFile(t, "../../docs/runbook.md"), -1) {
		sections = append(sections, m[1])
	}
	for _, r := range allRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		if severity := r.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s has severity %q", r.Alert, severity)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/runbook.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s has annotations %v", r.Alert, r.Annotations)
		}
	}
	slices.Sort(alerts)
	slices.Sort(sections)
	if !slices.Equal(alerts, sections) {
		t.Errorf("docs/runbook.md has sections\n%v, want\n%v", sections, alerts)
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	var tests []alertTest
	if err := yaml.UnmarshalStrict([]byte(readFile(t, "testdata/alerts.yaml")), &tests); err != nil {
		t.Fatal(err)
	}
	var tested []string
	essential := readLevel(t)
	for _, c := range tests {
		tested = append(tested, c.Alert)
		t.Run(c.Alert, func(t *testing.T) {
			t.Parallel()
			if c.Why == "" {
				t.Error("it does not say why the second case is silent")
			}
			firing := evaluate(t, c.Fires.Every, c.Fires.Series, c.Fires.At)[c.Alert]
			if len(firing) == 0 {
				t.Fatal("the alert does not fire")
			}
			checkAlert(t, firing[0], c.Fires.Labels, c.Fires.Says)
			if few := evaluate(t, c.Fires.Every, essential.of(t, c.Fires.Series), c.Fires.At)[c.Alert]; len(few) != len(firing) {
				t.Errorf("with --metrics-level=essential %d alerts fire, want %d", len(few), len(firing))
			}
			if firing := evaluate(t, c.Silent.Every, c.Silent.Series, c.Silent.At)[c.Alert]; len(firing) > 0 {
				t.Errorf("the alert fires: %v = %v", firing[0].Labels, firing[0].Value)
			}
		})
	}
	for _, r := range allRules(t) {
		if r.Alert != "" && !slices.Contains(tested, r.Alert) {
			t.Errorf("%s has no test", r.Alert)
		}
	}
}

// checkAlert: no annotation asks for a label that is not there.
func checkAlert(t *testing.T, a *rules.Alert, want map[string]string, says string) {
	t.Helper()
	for name, value := range want {
		if got := a.Labels.Get(name); got != value {
			t.Errorf("label %s is %q, want %q", name, got, value)
		}
	}
	a.Annotations.Range(func(l labels.Label) {
		if strings.Contains(l.Value, "<") || strings.Contains(l.Value, "  ") || strings.Contains(l.Value, "()") {
			t.Errorf("%s is %q", l.Name, l.Value)
		}
	})
	if got := a.Annotations.Get("description"); !strings.Contains(got, says) {
		t.Errorf("the description is %q, want %q in it", got, says)
	}
}

// evaluate returns the alerts that fire when all rules have been evaluated until a time.
func evaluate(t *testing.T, interval, series, at string) map[string][]*rules.Alert {
	t.Helper()
	if interval == "" {
		interval = "1m"
	}
	end, every := duration(t, at), duration(t, interval)
	db := promqltest.LoadedStorage(t, "load "+interval+"\n  "+strings.ReplaceAll(strings.TrimSpace(series), "\n", "\n  "))
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(newEngine(t), db), AppendableV2: db, Queryable: db, Context: t.Context(), ExternalURL: &url.URL{},
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := m.LoadGroups(every, labels.EmptyLabels(), "", nil, false, ruleFiles(t)...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(order(a), order(b)) })
	firing := map[string][]*rules.Alert{}
	for now := time.Duration(0); now <= end; now += every {
		for _, name := range names {
			groups[name].Eval(t.Context(), time.Unix(0, 0).Add(now))
		}
	}
	for _, name := range names {
		for _, r := range groups[name].Rules() {
			if err := r.LastError(); err != nil {
				t.Errorf("%s: %v", r.Name(), err)
			}
			alert, is := r.(*rules.AlertingRule)
			if !is {
				continue
			}
			for _, a := range alert.ActiveAlerts() {
				if a.State == rules.StateFiring {
					firing[r.Name()] = append(firing[r.Name()], a)
				}
			}
		}
	}
	return firing
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := model.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(d)
}

// order has the recorded metrics that alerts ask for evaluated first.
func order(group string) string {
	if strings.Contains(group, "recording.yaml") {
		return "0"
	}
	return "1" + group
}

// TestRecordingRulesShowTheRecordedRun: each has values over the recorded run, but for those of what did
// not happen in it.
func TestRecordingRulesShowTheRecordedRun(t *testing.T) {
	t.Parallel()
	db, engine := promqltest.LoadedStorage(t, readRecording(t)), newEngine(t)
	end := recordedFor(t, db)
	missing := map[string]bool{}
	for _, name := range strings.Fields(readFile(t, "testdata/not-recorded.txt")) {
		missing[name] = true
	}
	for _, r := range allRules(t) {
		if r.Record == "" {
			continue
		}
		err := shows(t, engine, db, r.Expr, "", end)
		if (err != nil) != missing[r.Record] {
			t.Errorf("%s: %v; testdata/not-recorded.txt has it: %v", r.Record, err, missing[r.Record])
		}
	}
}
