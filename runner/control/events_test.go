package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/test/expect"
)

// Pages of large texts end early and leave nothing out, in either direction.
func TestLargePages(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	c := r.client()
	for i := range 8 {
		r.say("main", fmt.Sprint(i)+strings.Repeat("x", 900<<10), "")
	}
	last := r.say("main", "end", "")
	for _, descending := range []bool{false, true} {
		var seen []int64
		q := view.EventQuery{Limit: view.MaxLimit, Descending: descending, Projection: view.ProjectionDebug}
		for pages := 0; ; pages++ {
			page := must(c.Events(t.Context(), "", q))(t)
			for _, e := range page.Events {
				seen = append(seen, e.EventSeq)
			}
			more := page.HasNewer
			q.AfterSeq = seen[len(seen)-1]
			if descending {
				more, q.AfterSeq, q.BeforeSeq = page.HasOlder, 0, seen[len(seen)-1]
			}
			if more {
				continue
			}
			if pages < 1 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
		if descending {
			slices.Reverse(seen)
		}
		for i, seq := range seen {
			if seq != int64(i+1) {
				t.Fatalf("events %v", seen)
			}
		}
		if int64(len(seen)) != last {
			t.Errorf("%d events of %d", len(seen), last)
		}
	}
	all := must(c.Events(t.Context(), "", view.EventQuery{Limit: 10}))(t).Events
	clipped := all[slices.IndexFunc(all, func(e view.EventEnvelope) bool { return e.Payload.Message != nil })]
	switch text := clipped.Payload.Message.Body.Text; {
	case len(text) > 17<<10:
		t.Errorf("len(text) = %d (%q), want at most %d", len(text), text, 17<<10)
	case !slices.Equal(clipped.Projection.Redactions, []string{"message.body.text"}):
		t.Errorf("clipped.Projection.Redactions = %q, want %q", clipped.Projection.Redactions,
			[]string{"message.body.text"})
	case clipped.Payload.Raw != nil:
		t.Errorf("clipped.Payload.Raw = %+v, want nil", clipped.Payload.Raw)
	}
}

// A filter by level leaves out what is less important, also while it streams.
func TestLevels(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	c := r.client()
	for range 3 {
		must(c.Prompt(t.Context(), "", wire.Prompt{Text: "x"}, ""))(t)
		r.turn("main", "y")
	}
	page := must(c.Events(t.Context(), "", view.EventQuery{MaxLevel: 3}))(t)
	expect.Equal(t, "results", len(page.Events), 3)
	results := 0
	for item, err := range c.Follow(t.Context(), "", client.Follow{After: -1, Tail: 2, MaxLevel: 3}) {
		expect.NoError(t, err)
		if item.Event.Display.Level > 3 || item.Event.Payload.Brief == nil {
			t.Errorf("%+v", item.Event.Display)
		}
		if results++; results == 2 { // the tail; what is less important is not looked at again
			must(c.Prompt(t.Context(), "", wire.Prompt{Text: "x"}, ""))(t)
			r.turn("main", "last")
		}
		if item.Event.Payload.Brief.Text == "last" {
			break
		}
	}
	expect.Equal(t, "results", results, 3)
}
