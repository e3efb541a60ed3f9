package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/tui"
)

// eventsMost is how many events are listed.
const eventsMost = 200

// helpers returns what top can do beside showing what a source answers. Of what is read from a file it is nothing.
func (f *topFlags) helpers(source tui.Source) tui.Helpers {
	switch s := source.(type) {
	case *controllerSource:
		return tui.Helpers{Events: f.events, Types: s.types, Save: s.save, Link: s.link}
	case *clusterSource:
		return tui.Helpers{Events: f.events}
	}
	return tui.Helpers{}
}

// events reads the events of a subject from the API server.
func (f *topFlags) events(ctx context.Context, s journal.Subject) ([]string, error) {
	reader, _, err := clusterReader(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	return eventsOf(ctx, reader, s)
}

// eventsOf returns the events of a subject, the newest first.
func eventsOf(ctx context.Context, r client.Reader, s journal.Subject) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	var list corev1.EventList
	if err := r.List(ctx, &list, client.MatchingFields{"involvedObject.name": s.Name}, client.Limit(eventsMost)); err != nil {
		return nil, fmt.Errorf("list events of %s: %w", s, err)
	}
	about := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return !strings.EqualFold(e.InvolvedObject.Kind, s.Kind) || s.Namespace != "" && e.InvolvedObject.Namespace != s.Namespace
	})
	slices.SortStableFunc(about, func(a, b corev1.Event) int { return lastSeen(&b).Compare(lastSeen(&a)) })
	lines := make([]string, len(about))
	for i := range about {
		e := &about[i]
		lines[i] = fmt.Sprintf("%s  %s  %s  %s", lastSeen(e).Local().Format(time.DateTime), e.Type, e.Reason, strings.TrimSpace(e.Message))
		if e.Count > 1 {
			lines[i] += fmt.Sprintf(" (%d times)", e.Count)
		}
	}
	return lines, nil
}

// lastSeen returns when an event was seen last: its writers fill in different fields.
func lastSeen(e *corev1.Event) time.Time {
	at := e.CreationTimestamp.Time
	for _, seen := range []time.Time{e.EventTime.Time, e.LastTimestamp.Time} {
		if seen.After(at) {
			at = seen
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// link returns where the pages of the controller are; empty: it is to be looked for.
func (s *controllerSource) link() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// types says why a node or NodeClaim is of its instance type, as dovetail explain does with --types.
func (s *controllerSource) types(ctx context.Context, subject journal.Subject) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	address, err := s.locate() //nolint:contextcheck // what is forwarded outlives the question
	if err != nil {
		return nil, err
	}
	from := journalFlags{controllerFlags: controllerFlags{address: address}}
	answers, err := from.askAbout(ctx, subject)
	if err != nil {
		return nil, s.judge(ctx, err)
	}
	var text bytes.Buffer
	for i := range answers {
		if err := from.rankOne(ctx, &answers[i]); err != nil {
			return nil, s.judge(ctx, err)
		}
		if err := answers[i].Ranking.Print(&text); err != nil {
			return nil, err
		}
	}
	return strings.Split(strings.TrimSpace(text.String()), "\n"), nil
}

// save writes a decision to a file of this directory, as dovetail share does. A file that is there stays.
func (s *controllerSource) save(ctx context.Context, id string) (string, error) {
	asked, err := journal.ParseID(id)
	if err != nil {
		return "", err
	}
	address, err := s.locate() //nolint:contextcheck // what is forwarded outlives the question
	if err != nil {
		return "", err
	}
	from := journalFlags{controllerFlags: controllerFlags{address: address}}
	file, err := from.one(ctx, asked)
	if err != nil {
		return "", s.judge(ctx, err)
	}
	e, err := file.Find(asked)
	if err != nil {
		return "", err
	}
	d, err := e.Decision()
	if err != nil {
		return "", err
	}
	d, _ = unredacted(d)
	var text bytes.Buffer
	if err := journal.WriteShared(&text, []journal.Shared{{Head: e.Head, Decision: d}}); err != nil {
		return "", err
	}
	name := shareName(e.ID)
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("save decision %s: %w", e.ID, err)
	}
	_, err = out.Write(text.Bytes())
	return name, errors.Join(err, out.Close())
}
