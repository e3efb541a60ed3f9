package nominate

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestStories plays the files of testdata. Each story is a question at noon, the cluster that
// it is asked about, and the whole answer. All durations are before noon; 0s is noon itself.
//
//	next [busy] [coming=N] [alike]   what is to be done now. busy: kube-scheduler is trying pods;
//	                            coming: pods planned for nodes that have not joined; alike: all pods are the same
//	node NAME [closed|opening]  a node: open, not open to pods yet, or about to be open
//	node NAME asked=DUR [ready=DUR] [spare] [opening]   a node that asks to be opened, or asked
//	gang NAME coming=N          how many pods of a gang are planned for nodes that have not joined
//	pod NAME [for=NODE] [tried=DUR] [tries=N] [priority=N] [count=N]   an unbound pod, its target node,
//	                            when kube-scheduler last found no node for it, and how often; with tries=0 when it was first seen
//	  [nominated=NODE] [unseen] [preempts] [given=N] [given-at=DUR]   the nomination that it has: written and not
//	                            seen on it yet, or kube-scheduler's own; how often it was nominated, and when last
//	  [gang=NAME]               the gang that it is of
//	  [app=NAME skew=N [constraints=N]]   topology spread constraints that select the app
//
//	elsewhere [already=N]       which pods are planned for another node; already: how many were before
//	pod NAME open=DUR [tried=DUR] [times=N] [count=N]   an unbound pod, since when its target node is open, when
//	                            kube-scheduler tried it in vain, how often it was planned for another node
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			question := map[string]string{}
			for _, arg := range d.CmdArgs {
				question[arg.Key] = strings.Join(arg.Vals, ",")
			}
			s := story{t: t, d: d, words: question}
			switch d.Cmd {
			case "next":
				return s.next()
			case "elsewhere":
				return s.elsewhere()
			default:
				d.Fatalf(t, "no such question: %s", d.Cmd)
				return ""
			}
		})
	})
}

// story reads one question; words are those of the line that is read.
type story struct {
	t     *testing.T
	d     *datadriven.TestData
	words map[string]string
}

// lines calls read with the kind and the name of each thing of the cluster.
func (s *story) lines(known string, read func(kind, name string)) {
	for line := range strings.Lines(s.d.Input) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			s.d.Fatalf(s.t, "%q: want a kind and a name", line)
		}
		s.words = map[string]string{}
		for _, field := range fields[2:] {
			word, value, _ := strings.Cut(field, "=")
			if !strings.Contains(known, " "+word+" ") {
				s.d.Fatalf(s.t, "%q: no such word: %s", line, word)
			}
			s.words[word] = value
		}
		if count := s.number("count", 0); count > 0 {
			for i := range count {
				read(fields[0], fmt.Sprintf("%s-%03d", fields[1], i+1))
			}
			continue
		}
		read(fields[0], fields[1])
	}
}

func (s *story) is(word string) bool { _, ok := s.words[word]; return ok }

func (s *story) number(word string, otherwise int) int {
	if !s.is(word) {
		return otherwise
	}
	n, err := strconv.Atoi(s.words[word])
	if err != nil {
		s.d.Fatalf(s.t, "%s: %v", word, err)
	}
	return n
}

// ago returns the instant that lies the word's duration before noon; zero without the word.
func (s *story) ago(word string) time.Time {
	if !s.is(word) {
		return time.Time{}
	}
	before, err := time.ParseDuration(s.words[word])
	if err != nil {
		s.d.Fatalf(s.t, "%s: %v", word, err)
	}
	return noon.Add(-before)
}

func (s *story) next() string {
	v := View{At: noon, LastPodEvent: noon.Add(-time.Second), WaitMost: 20 * time.Second, Coming: s.number("coming", 0), ComingOf: map[string]int{}}
	v.Alike = s.is("alike")
	if s.is("busy") {
		v.LastPodEvent = noon
	}
	constraintSets := map[string]*cluster.Constraints{}
	s.lines(" gang coming closed opening asked ready spare for tried tries priority count nominated unseen preempts given given-at app skew constraints ", func(kind, name string) {
		if kind == "gang" {
			v.ComingOf[name] = s.number("coming", 0)
			return
		}
		if kind == "pod" {
			v.Pods = append(v.Pods, s.pod(name, constraintSets))
			return
		}
		n := Node{Name: name, Asked: s.ago("asked"), ReadyAt: s.ago("ready"), HasRoom: s.is("spare")}
		for _, stage := range []Stage{Closed, Opening} {
			if s.is(string(stage)) {
				n.Stage = stage
			}
		}
		if s.is("asked") && n.Stage == Open {
			n.Stage = Waiting
		}
		v.Nodes = append(v.Nodes, n)
	})
	return Next(v).String()
}

func (s *story) pod(name string, constraintSets map[string]*cluster.Constraints) Pod {
	p := Pod{
		PodRef: cluster.PodRef{Namespace: "ns", Name: name, UID: name}, Node: s.words["for"],
		Nominated: s.words["nominated"], Ours: s.is("nominated") && !s.is("preempts"), Given: s.number("given", 0), GivenAt: s.ago("given-at"),
		Priority: int32(s.number("priority", 0)), Tries: s.number("tries", 1), TriedAt: s.ago("tried"), Gang: s.words["gang"],
	}
	p.Stands = p.Nominated != "" && p.Nominated == p.Node && !s.is("unseen")
	if app := s.words["app"]; app != "" {
		if constraintSets[app] == nil {
			constraintSets[app] = spreadConstraints(app, s.number("skew", 1), s.number("constraints", 1))
		}
		p.Constraints = constraintSets[app]
	}
	return p
}

// spreadConstraints returns the constraints of an app's pods that are spread over zones.
func spreadConstraints(app string, maxSkew, constraints int) *cluster.Constraints {
	podConstraints := &cluster.Constraints{Namespace: "ns", Labels: map[string]string{"app": app}}
	selector := cluster.Selector{Some: true, Requirements: label.OfLabels(podConstraints.Labels)}
	for range constraints {
		podConstraints.Spread = append(podConstraints.Spread, cluster.Spread{Key: label.Zone, MaxSkew: int32(maxSkew), Selector: selector})
	}
	return podConstraints
}

func (s *story) elsewhere() string {
	already, stuck := s.number("already", 0), []Stuck(nil)
	s.lines(" open tried times count ", func(_, name string) {
		stuck = append(stuck, Stuck{PodRef: cluster.PodRef{Namespace: "ns", Name: name}, Since: s.ago("open"), TriedAt: s.ago("tried"), Times: s.number("times", 0)})
	})
	pods := Elsewhere(noon, stuck, already)
	if len(pods) == 0 {
		return "nothing\n"
	}
	var b strings.Builder
	for _, pod := range pods {
		fmt.Fprintf(&b, "plan %s for another node\n", pod)
	}
	return b.String()
}
