package scheduler_test

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/responses/agentruntime"
	"holon/runner/agent/record"
	"holon/state"
	"holon/test/expect"
)

// What happens to a container is recorded once, in its order, with its cause, and a container that another one replaces
// is lost unless its end was recorded.
func TestContainers(t *testing.T) {
	for name, c := range map[string]struct{ changes, want string }{
		"a life":     {"created a, started a, ready a, exited a, removed a", "created a, started a, ready a, exited a, removed a"},
		"twice":      {"created a, created a, started a, created a, started a", "created a, started a"},
		"found late": {"created a, started a, exited a, exited a, removed a", "created a, started a, exited a, removed a"},
		"vanished":   {"created a, ready a, lost a, lost a", "created a, ready a, lost a"},
		"gone after": {"created a, exited a, lost a, lost a", "created a, exited a, removed a"},
		"ended once": {"created a, exited a, lost a, removed a", "created a, exited a, removed a"},
		"by force":   {"created a, ready a, removed a, exited a, lost a", "created a, ready a, removed a"},
		"replaced":   {"created a, ready a, created b, ready b", "created a, ready a, lost a, created b, ready b"},
		"one by one": {"created a, removed a, created b", "created a, removed a, created b"},
		"left over":  {"created a, ready a, removed x", "created a, ready a, removed x"},
		"an old one": {"removed x, created a", "removed x, created a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			start := w.state().EventSeq
			for what := range strings.SplitSeq(c.changes, ", ") {
				phase, id, _ := strings.Cut(what, " ")
				w.must(w.m.ContainerChanged(w.ctx, "alpha", change(phase, id)))
			}
			var got []string
			created := map[string]string{}
			_, events := w.events(start)
			for _, e := range events {
				phase, ok := strings.CutPrefix(e.Class, "holon.container.")
				if !ok {
					t.Fatalf("an event %s", e.Class)
				}
				var p struct {
					ID string `json:"container_id"`
				}
				expect.NoError(t, json.Unmarshal(e.Data, &p))
				if got = append(got, phase+" "+p.ID); phase == "created" {
					created[p.ID] = e.ID
					continue
				}
				expect.Equal(t, "cause of "+phase, e.Cause, created[p.ID])
			}
			expect.Equal(t, "events", strings.Join(got, ", "), c.want)
			w.valid(t)
		})
	}
}

func change(phase, id string) state.ContainerChange {
	c := state.ContainerChange{HeldContainer: state.HeldContainer{ID: id, Phase: state.ContainerPhase(phase)},
		Engine: "docker", Image: "image"}
	if phase == "started" {
		c.Isolation = &state.Isolation{Network: state.Axis{Value: "none"}, Memory: state.Axis{Value: "1"}}
	}
	return c
}

// A container that is made for a turn is caused by it, and one of an agent that is not known is nothing.
func TestContainerOfATurn(t *testing.T) {
	w := open(t)
	w.admit(prompt("hello"))
	w.ok(w.m.Claim(w.ctx, "alpha"))
	w.must(w.m.ContainerChanged(w.ctx, "alpha", change("created", "a")))
	w.caused(t, "holon.container.created", "turn.submitted")
	w.ok(w.m.ContainerChanged(w.ctx, "nobody", change("created", "a")))
}

// valid holds the record of alpha to the rules of the standard.
func (w *world) valid(t *testing.T) {
	t.Helper()
	v := agentruntime.NewValidator(agentruntime.LevelC, func(found agentruntime.Violation) {
		t.Errorf("%s breaks %s: %s instead of %s", found.EventID, found.Rule, found.Got, found.Want)
	})
	_, events := w.events(0)
	for i, e := range events {
		event := record.RuntimeEvent(e, testLog)
		v.Event("record", i+1, &event)
	}
}
