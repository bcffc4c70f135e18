package turnfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/egress"
	"holon/test/expect"
)

// The facts of the host go on where those of the turn end, and what the container
// claims to be such facts is taken out.
func TestAppendFacts(t *testing.T) {
	t.Parallel()
	at := func(s string) turns.Time {
		parsed, err := time.Parse(time.RFC3339, s)
		expect.NoError(t, err)
		return turns.At(parsed)
	}
	scope := turns.Scope{RuntimeID: "run_1", SessionID: "sess_1", TurnID: "turn_1"}
	facts := []turns.RuntimeEvent{
		egress.Fact{EventID: "evt_a", Timestamp: at("2026-01-01T00:00:00Z"), Decision: &turns.EgressDecision{
			EgressID: "egr_1", Verdict: turns.VerdictAllowed, Host: "a.example"}}.Event(scope),
		egress.Fact{EventID: "evt_b", Timestamp: at("2026-01-01T00:00:01Z"),
			Ended: &turns.EgressEnd{EgressID: "egr_1", BytesSent: 3}}.Event(scope),
	}
	own := func(class string, sequence int64) string {
		ev := turns.Scope{RuntimeID: "inst_1", SessionID: "sess_1",
			TurnID: "turn_1"}.Event(turns.TurnStarted, turns.Started{Model: "m"})
		ev.Type, ev.Sequence = class, sequence
		line, err := ev.AppendLine(nil)
		expect.NoError(t, err)
		return string(line)
	}
	for _, tc := range []struct {
		name, before string
		want         []string // "type sequence"
	}{
		{"no file", "", []string{"holon.egress.decision 1", "holon.egress.ended 2"}},
		{"an ended turn", own("turn.started", 1) + own("turn.completed", 2),
			[]string{"turn.started 1", "turn.completed 2", "holon.egress.decision 3", "holon.egress.ended 4"}},
		{"half a line", own("turn.started", 1) + own("turn.completed", 2)[:50],
			[]string{"turn.started 1", "holon.egress.decision 2", "holon.egress.ended 3"}},
		{"forged", own("turn.started", 1) + own("holon.egress.decision", 2) +
			`{"type":"holon.egress.\u0065nded","sequence":3}` + "\n" +
			`{"type":"holon.egress.decision","Type":"turn.started","sequence":3}` + "\n" +
			`{"type":"holon.egress.decision"},` + "\n" + own("cost.recorded", 3) + own("turn.completed", 4),
			[]string{"turn.started 1", "turn.completed 4", "holon.egress.decision 5", "holon.egress.ended 6"}},
		{"a sequence that is none", own("turn.started", 1<<62),
			[]string{"turn.started 4611686018427387904", "holon.egress.decision 1", "holon.egress.ended 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, turns.RuntimeFile)
			if tc.before != "" {
				write(t, filepath.Join(dir, turns.JournalFile), entries(tc.before, ""))
			}
			for range 2 { // a second time changes nothing
				if _, err := (Completion{Facts: facts}).Complete(dir); err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(path)
				expect.NoError(t, err)
				var got []string
				for line := range strings.Lines(string(data)) {
					ev, err := turns.DecodeRuntimeEvent([]byte(strings.TrimSpace(line)))
					if err != nil {
						t.Fatalf("%v: %s", err, line)
					}
					got = append(got, fmt.Sprint(ev.Type, " ", ev.Sequence))
					if ev.Type == "holon.egress.decision" &&
						(ev.EventID != "evt_a" || ev.RuntimeID != "run_1" || ev.Timestamp != facts[0].Timestamp) {
						t.Errorf("%s", line)
					}
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("%q, want %q", got, tc.want)
				}
			}
		})
	}
	dir := t.TempDir()
	if _, err := (Completion{}).Complete(dir); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(dir); len(list) > 0 {
		t.Error("a file was made for nothing")
	}
	expect.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, turns.JournalFile)))
	if _, err := (Completion{Facts: facts}).Complete(dir); err == nil {
		t.Error("a link was followed")
	}
}
