package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
)

// recovery is what a record tells of a loss: a warning, and what was made up for.
type recovery struct {
	Code     string
	Sources  []string
	Degraded bool
	Missing  []scheduler.Missing
}

// recoveries are those of alpha after an event. Each is caused by its warning.
func (w *world) recoveries(t *testing.T, after int64) (list []recovery) {
	t.Helper()
	_, events := w.events(after)
	for i, e := range events {
		switch e.Class {
		case "runtime.warning":
			var r recovery
			expect.NoError(t, json.Unmarshal(e.Data, &r))
			list = append(list, r)
		case "history.reconstructed":
			expect.Equal(t, "cause of history.reconstructed", e.Cause, events[i-1].ID)
			expect.NoError(t, json.Unmarshal(e.Data, &list[len(list)-1]))
		}
	}
	w.valid(t)
	return list
}

// A message whose turns were interrupted knows how many there were, whatever interrupted them.
func TestEarlierTurns(t *testing.T) {
	w := open(t)
	w.admit(prompt("hello"))
	for i, end := range []scheduler.End{{Lost: true, Suspended: true}, {NotBegun: true}, {Lost: true, Suspended: true},
		{Lost: true}, {Turn: ledger.Turn{Kind: ledger.TurnCompleted}}} {
		c := w.claim()
		expect.Equal(t, fmt.Sprint("earlier turns of attempt ", i), c.Attempt.Earlier, []int{0, 1, 1, 2, 3}[i])
		w.settle(c.Attempt.ID, end)
	}
	w.admit(prompt("another"))
	expect.Equal(t, "earlier turns of another message", w.claim().Attempt.Earlier, 0)
}

func (w *world) recovered(t *testing.T, after int64, want ...recovery) {
	t.Helper()
	if diff := cmp.Diff(want, w.recoveries(t, after)); diff != "" {
		t.Errorf("the record tells of other losses (-want +got):\n%s", diff)
	}
}

// A process that takes over the attempt of another one says so once, and one that goes on with its own does not.
func TestTakeOver(t *testing.T) {
	w := open(t)
	c := w.working()
	start := w.state().EventSeq
	found := scheduler.Recovery{Sources: []string{"ledger"},
		Missing: []scheduler.Missing{{Kind: "turn_end", Ref: c.Attempt.TurnID}}}
	w.must(w.m.TakeOver(w.ctx, c.Attempt.ID, found))
	w.recovered(t, start)
	w.reboot()
	w.must(w.m.TakeOver(w.ctx, c.Attempt.ID, found))
	w.must(w.m.TakeOver(w.ctx, c.Attempt.ID, found))
	w.recovered(t, start, recovery{"daemon_restarted", []string{"ledger"}, true, found.Missing})
	w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	w.reboot()
	w.must(w.m.TakeOver(w.ctx, c.Attempt.ID, found)) // which has ended
	expect.Equal(t, "takeovers that are recorded", len(w.recoveries(t, start)), 1)
}

// A conversation that is gone is recorded once, when the agent begins another.
func TestConversationLost(t *testing.T) {
	w := open(t)
	w.admit(prompt("one"))
	first, _ := w.done()
	start := w.state().EventSeq
	w.admit(prompt("two"))
	w.settle(w.claim().Attempt.ID, scheduler.End{NotBegun: true, Forgotten: true})
	w.settle(w.claim().Attempt.ID, scheduler.End{NotBegun: true, Forgotten: true})
	w.recovered(t, start, recovery{"conversation_lost", []string{"ledger"}, true,
		[]scheduler.Missing{{Kind: "conversation", Ref: "resp_" + first.Attempt.ID}}})
}

// A conversation of which a part is left goes on from that.
func TestConversationKept(t *testing.T) {
	w := open(t)
	w.admit(prompt("one"))
	w.done()
	w.admit(prompt("two"))
	w.settle(w.claim().Attempt.ID, scheduler.End{NotBegun: true, Forgotten: true, Kept: "resp_kept"})
	expect.Equal(t, "what the next turn continues", w.claim().Attempt.Chain, "resp_kept")
}

// Renewing begins another conversation with the next turn, also while one runs, and keeps everything else.
func TestRenew(t *testing.T) {
	w := open(t)
	renew := func() int64 {
		before := w.state().EventSeq
		w.must(w.m.Renew(w.ctx, "alpha", "me"))
		return w.state().EventSeq - before
	}
	expect.Equal(t, "events without a conversation", renew(), 0)
	w.admit(prompt("one"))
	first, _ := w.done()
	expect.Equal(t, "the conversation", w.state().Chain, "resp_"+first.Attempt.ID)
	expect.Equal(t, "events", renew(), 1)
	expect.Equal(t, "the conversation", w.state().Chain, "")

	w.admit(prompt("two"))
	second := w.claim()
	expect.Equal(t, "what the second turn continues", second.Attempt.Chain, "")
	w.must(w.m.Began(w.ctx, second.Attempt.ID, scheduler.Sent{}))
	expect.Equal(t, "events while a turn runs", renew(), 1)
	expect.Equal(t, "events of the same again", renew(), 0)
	w.settle(second.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted,
		ResponseID: "resp_second", Last: "done"}})
	expect.Equal(t, "the conversation after the turn", w.state().Chain, "")

	w.admit(prompt("three"))
	third, _ := w.done()
	expect.Equal(t, "what the third turn continues", third.Attempt.Chain, "")
	expect.Equal(t, "the conversation", w.state().Chain, "resp_"+third.Attempt.ID)
	expect.Equal(t, "turns", w.state().Turns, 3)
}

// A ledger that was restored from a backup says where it ends, once for each agent.
func TestRestored(t *testing.T) {
	w := open(t)
	w.must(w.m.Restored(w.ctx, "alpha"))
	start := w.state().EventSeq
	w.recovered(t, 0)
	backup := filepath.Join(t.TempDir(), "backup.db")
	w.must(sqlite.Backup(w.ctx, w.path, backup))
	w.close()
	for _, of := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(w.path + of); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	_, err := sqlite.Restore(w.ctx, backup, w.path, false)
	w.must(err)
	w.boot()
	for range 2 {
		w.must(w.m.Restored(w.ctx, "alpha"))
	}
	w.recovered(t, start, recovery{"ledger_restored", []string{"backup"}, true,
		[]scheduler.Missing{{Kind: "events", Ref: fmt.Sprint(start)}}})
	_, events := w.events(0)
	if !slices.ContainsFunc(events, func(e ledger.Event) bool { return e.Seq == start+2 }) || len(events) != int(start)+2 {
		t.Errorf("%d events, want %d", len(events), start+2)
	}
}
