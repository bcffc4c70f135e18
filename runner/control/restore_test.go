package control_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/sqlite"
	"holon/test/expect"
)

// A reader that comes back after a backup was restored is told which of its events are no more, and gets what came in
// their place. One that has read nothing else than the backup had goes on.
func TestReadersOfARestoredLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	backup := filepath.Join(t.TempDir(), "backup.db")
	r.say("main", "kept", "")
	path := filepath.Join(filepath.Dir(filepath.Dir(r.socket)), "ledger.db")
	expect.NoError(t, sqlite.Backup(t.Context(), path, backup))
	kept, old := r.newest(), r.store.Epoch()
	for range 3 {
		r.say("main", "lost", "")
	}
	lost := r.newest()
	r.reopen(func(path string) {
		for _, of := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + of); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		_, err := sqlite.Restore(t.Context(), backup, path, false)
		expect.NoError(t, err)
	})
	for range 6 {
		r.say("main", "anew", "")
	}
	now, newest := r.store.Epoch(), r.newest()
	d := r.described()
	for _, tc := range []struct {
		name, epoch string
		after, next int64 // next 0: no gap
	}{
		{"a cursor beyond the backup", old, lost, kept + 1},
		{"a cursor of the backup", old, kept, 0},
		{"a cursor before its end", old, kept - 1, 0},
		{"a cursor of this ledger", now, lost, 0},
		{"one of the backup by a reader of now", now, kept - 1, 0},
		{"another ledger", "other", kept, 1},
		{"no epoch", "", lost, 0},
		{"nothing read", "other", 0, 0},
	} {
		query := fmt.Sprintf("?agent_id=main&after=%d", tc.after)
		if tc.epoch != "" {
			query += "&epoch=" + tc.epoch
		}
		var page view.RecordPage
		a := r.ask(d, get("/runtime/events"+query))
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 {
			t.Fatalf("%s: %d %s", tc.name, a.status, a.body)
		}
		expect.Equal(t, tc.name+": the epoch", a.header.Get(wire.HeaderEventEpoch), now)
		first := tc.after + 1
		if tc.next > 0 {
			first = tc.next
		}
		want := view.RecordGap{After: tc.after, Next: first, Reason: "epoch_changed"}
		if gap := page.Gap; (gap != nil) != (tc.next > 0) || gap != nil && *gap != want {
			t.Errorf("%s: the gap is %+v, want one: %v, %+v", tc.name, gap, tc.next > 0, want)
		}
		if len(page.Events) == 0 || page.Events[0].Sequence != first {
			t.Errorf("%s: the page begins with %+v, want event %d", tc.name, page.Events, first)
		}
		// A stream tells the same, once.
		told := r.recordStream(query, newest)
		if gaps := strings.Count(told, "event: gap"); gaps != 0 != (tc.next > 0) || gaps > 1 {
			t.Errorf("%s: the stream has %d gaps: %s", tc.name, gaps, told)
		}
		if want := fmt.Sprintf("id: %d\n", first); !strings.Contains(told, want) {
			t.Errorf("%s: the stream does not send event %d: %s", tc.name, first, told)
		}
		// The events of the agent's own stream are reset in the same cases.
		s := r.stream(strings.ReplaceAll("/agents/main/events/stream"+query, "agent_id=main&after=", "after_seq="), nil)
		s.control()
		if reset := strings.Contains(strings.Join(s.next(), " "), "stream_reset"); reset != (tc.next > 0) {
			t.Errorf("%s: the agent's stream is reset: %v", tc.name, reset)
		}
	}
}

// recordStream reads a stream of the record until it has sent an event.
func (r *rig) recordStream(query string, through int64) string {
	r.t.Helper()
	s := r.stream("/runtime/events"+query, map[string]string{"Accept": "text/event-stream"})
	var told []string
	for last := fmt.Sprintf("id: %d", through); ; {
		lines := s.next()
		told = append(told, strings.Join(lines, "\n"))
		if slices.Contains(lines, last) {
			return strings.Join(told, "\n\n")
		}
	}
}
