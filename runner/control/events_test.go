package control_test

import (
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/test/expect"
)

// An event has as much of a large text as there is room for, and says so.
func TestLargeText(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	c := r.client()
	r.say("main", strings.Repeat("x", 900<<10), "")
	all := must(c.Events(t.Context(), "", view.EventQuery{Limit: 10}))(t).Events
	clipped := all[slices.IndexFunc(all, func(e view.EventEnvelope) bool { return e.Payload.Message != nil })]
	if redacted := clipped.Projection.Redactions; len(clipped.Payload.Message.Body.Text) > 8<<10 ||
		!slices.Equal(redacted, []string{"message.body.text"}) || clipped.Payload.Raw != nil {
		t.Errorf("the payload is %+v, without %q, want a clipped text and nothing raw", clipped.Payload, redacted)
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
