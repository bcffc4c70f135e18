package scheduler_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// turned makes a turn of alpha to its end and returns its id.
func (w *world) turned(text string) string {
	w.admit(prompt(text))
	c, _ := w.done()
	return c.Attempt.TurnID
}

func (w *world) outputs(ids ...string) (states []string) {
	got, err := w.m.OutputStates(w.ctx, "alpha", ids)
	w.must(err)
	for _, id := range ids {
		states = append(states, string(got[id]))
	}
	return states
}

// The directory of a turn is pinned while an event refers to it, until the record was exported that far.
func TestOutputStates(t *testing.T) {
	w := open(t)
	defer w.close()
	one, two := w.turned("one"), w.turned("two")
	is := func(what, want string) {
		t.Helper()
		expect.Equal(t, what, strings.Join(w.outputs(one, two, "turn_0"), " "), want)
	}
	is("of a new record", "pinned pinned unreferenced")
	var last int64 // of the first turn
	_, all := w.events(0)
	for _, e := range all {
		if e.TurnID == one {
			last = e.Seq
		}
	}
	export := func(through int64) int64 {
		t.Helper()
		x := scheduler.Export{AgentID: "alpha", Through: through, Digest: fmt.Sprint(through)}
		seq, err := w.m.Exported(w.ctx, x)
		w.must(err)
		return seq
	}
	export(last - 1)
	is("one event was not exported", "pinned pinned unreferenced")
	if seq := export(last); seq == 0 {
		t.Error("an export that tells more has no event")
	}
	is("the first turn was exported", "saved pinned unreferenced")
	for _, through := range []int64{last, 1} {
		expect.Equal(t, "event of an export that tells no more", export(through), 0)
	}
	_, err := w.m.Exported(w.ctx, scheduler.Export{AgentID: "alpha", Through: 1 << 40})
	if !state.IsCode(err, scheduler.CodeInvalidMessage) {
		t.Errorf("an export of events that are not there: %v", err)
	}
	w.must(w.m.ExpireOutputs(w.ctx, "alpha", []ledger.ExpiredOutput{{TurnID: two, Reason: ledger.OutputLimit}}))
	is("the second went", "saved gone unreferenced")
	w.check()
	for more := true; more; {
		var err error
		more, err = w.store.Prune(w.ctx, ledger.Retention{MaxEvents: 1}, w.now, 100)
		w.must(err)
	}
	is("retention let the events go", "unreferenced gone unreferenced")
}

// An expiry is one event with what went, also when a process ends anywhere in the step that records it.
func TestExpireOutputs(t *testing.T) {
	for _, where := range []boundary{beforeStep, beforeWrite, afterCommit} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			w := open(t)
			one, two := w.turned("one"), w.turned("two")
			gone := []ledger.ExpiredOutput{
				{TurnID: one, Reason: ledger.OutputExported, SizeBytes: 9, Count: 1,
					Artifacts: []ledger.ExpiredFile{{Path: "tools/a", SizeBytes: 4, Digest: "sha256:00"}}},
				{TurnID: two, Reason: ledger.OutputLimit, Count: 99},
			}
			for range 99 { // more than an event has room for
				gone[1].Artifacts = append(gone[1].Artifacts, ledger.ExpiredFile{Path: strings.Repeat("é\x01", 100)})
			}
			w.store.armed, w.store.where = true, where
			if err := w.m.ExpireOutputs(w.ctx, "alpha", gone); err == nil {
				t.Fatal("the process did not end")
			}
			w.crash(false)
			for range 2 {
				w.must(w.m.ExpireOutputs(w.ctx, "alpha", gone))
			}
			_, all := w.events(0)
			all = slices.DeleteFunc(all, func(e ledger.Event) bool { return record.Of(e).Name != record.OutputExpired })
			expect.Equal(t, fmt.Sprintf("events at boundary %d", where), len(all), 2)
			var event struct {
				TurnID    string               `json:"turn_id"`
				Reason    ledger.OutputReason  `json:"reason"`
				Artifacts []ledger.ExpiredFile `json:"artifacts"`
			}
			w.must(json.Unmarshal(all[0].Data, &event))
			expect.Equal(t, "the turn", event.TurnID, one)
			expect.Equal(t, "why", event.Reason, ledger.OutputExported)
			expect.Equal(t, "the file", event.Artifacts[0], gone[0].Artifacts[0])
			w.view(func(v ledger.View) error {
				e, ok, err := v.ExpiredOutput(two)
				expect.Equal(t, "the second is known", ok, true)
				expect.Equal(t, "files that it had", e.Count, 99)
				return err
			})
			w.check()
			w.close()
		})
	}
}

// An expiry of nothing names no files, which is a list.
func TestExpireNothing(t *testing.T) {
	w := open(t)
	w.must(w.m.ExpireOutputs(w.ctx, "alpha", []ledger.ExpiredOutput{{TurnID: w.turned("one"), Reason: ledger.OutputLimit}}))
	contains(t, "the event", string(w.newest(record.OutputExpired).Data), `"artifacts":[]`)
}

// oldest are the directories of the first turns of an agent that have ended, at most n.
func (w *world) oldest(agent string, n int) (gone []ledger.ExpiredOutput) {
	for _, id := range slices.Sorted(maps.Keys(w.containers)) {
		if t := w.containers[id]; t.agent == agent && w.running[agent] != t && len(gone) < n {
			gone = append(gone, ledger.ExpiredOutput{TurnID: id, Reason: ledger.OutputLimit})
		}
	}
	return gone
}
