package check

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
)

// newLedger makes a ledger in which an agent has worked off a message, fired a
// timer and waits.
func newLedger(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	expect.NoError(t, err)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := scheduler.New(store, scheduler.Options{Owner: "boot_1", Now: func() time.Time { return now }})
	step := func(err error) {
		t.Helper()
		expect.NoError(t, err)
	}
	_, err = m.Create(t.Context(), scheduler.NewAgent{ID: "a"})
	step(err)
	_, err = m.Admit(t.Context(), ledger.Message{AgentID: "a", Key: "prompt:k1", Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator},
		Body:   ledger.Body{Type: "text", Text: "go"}, Surface: ledger.SurfaceCLIPrompt,
		AdmissionContext: ledger.LocalProcess})
	step(err)
	_, _, err = m.CreateTimer(t.Context(), scheduler.NewTimer{AgentID: "a", Key: "timer:k2", After: time.Second})
	step(err)
	now = now.Add(2 * time.Second)
	_, _, err = m.FireDue(t.Context(), now)
	step(err)
	for {
		c, ok, err := m.Claim(t.Context(), "a")
		step(err)
		if !ok {
			break
		}
		step(m.Began(t.Context(), c.Attempt.ID, scheduler.Sent{Prompt: []byte(`{}`), Digest: "digest"}))
		if c.Message.Kind == ledger.KindTimerTick {
			_, err = m.Sleep(t.Context(), "a", "call_1", 0, "anything")
			step(err)
		}
		_, err = m.Settle(t.Context(), c.Attempt.ID,
			scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, ResponseID: "resp_1", StartedAt: now,
				CompletedAt: now}})
		step(err)
	}
	step(store.Close())
	return path
}

func TestLawful(t *testing.T) {
	t.Parallel()
	l := open(t, newLedger(t))
	expect.NoError(t, errors.Join(l.Quiet(t.Context()), l.Lawful(t.Context()), l.Recorded(t.Context()),
		l.Sound(t.Context())))
	for key, want := range map[string]int{"k1": 1, "k2": 1, "k3": 0} {
		found, err := l.Keyed(t.Context(), "a", key)
		if err != nil || len(found) != want {
			t.Errorf("%s: %v, %v", key, found, err)
		}
		if key == "k1" && (found[0].Status != "processed" || found[0].Turn == "") {
			t.Errorf("%+v", found[0])
		}
	}
	turns, err := l.Turns(t.Context(), "a")
	if err != nil || len(turns) != 2 {
		t.Errorf("%v, %v", turns, err)
	}
	ways, err := l.Ways(t.Context())
	switch {
	case err != nil:
		t.Errorf("unexpected error: %v", err)
	case len(ways) != 2:
		t.Errorf("len(ways) = %d (%+v), want 2", len(ways), ways)
	case !ways[0].Free:
		t.Error("ways[0].Free = false, want true")
	case ways[1].Free:
		t.Error("ways[1].Free = true, want false")
	case ways[0].Begun.Sub(ways[0].Admitted) != 2*time.Second:
		t.Errorf("ways[0].Begun.Sub(ways[0].Admitted) = %v, want %v", ways[0].Begun.Sub(ways[0].Admitted),
			2*time.Second)
	case ways[0].Claimed != ways[0].Begun:
		t.Errorf("ways[0].Claimed = %+v, want %+v", ways[0].Claimed, ways[0].Begun)
	}
	newest, err := l.Newest(t.Context())
	switch n, err2 := l.Count(t.Context(), "a", "message_admitted"); {
	case errors.Join(err, err2) != nil:
		t.Errorf("errors.Join(err, err2) = %v, want nil", errors.Join(err, err2))
	case newest["a"] == 0:
		t.Error(`newest["a"] = 0, want another value`)
	case n != 2:
		t.Errorf("n = %d, want 2", n)
	}
}

func open(t *testing.T, path string) *Ledger {
	t.Helper()
	l, err := OpenLedger(path)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// planted is a statement that breaks a ledger, and what is to be found then, "" for nothing.
type planted struct{ statement, want string }

// findPlanted breaks copies of a ledger.
func findPlanted(t *testing.T, look func(l *Ledger) error, all []planted) {
	t.Helper()
	whole := newLedger(t)
	for _, tc := range all {
		dir := t.TempDir()
		expect.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Dir(whole))))
		path := filepath.Join(dir, filepath.Base(whole))
		plant(t, path, tc.statement)
		err := look(open(t, path))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.statement, err, tc.want)
		}
	}
}

// Every law is broken once, and found.
func TestLawsAreFound(t *testing.T) {
	t.Parallel()
	const oneMessage = `SELECT id FROM messages ORDER BY number LIMIT 1`
	const ofIt = `data ->> '$.message_id' = (` + oneMessage + `)`
	look := func(l *Ledger) error { return l.Lawful(t.Context()) }
	findPlanted(t, look, []planted{
		{`DELETE FROM events WHERE seq = 3`, "an agent's events have a gap"},
		{`UPDATE agent_states SET event_seq = event_seq + 1`, "an agent's events have a gap"},
		{`DELETE FROM entries WHERE message_id = (` + oneMessage + `)`, "a message is not in the queue"},
		{`UPDATE events SET data = json_set(data, '$.class', 'x') WHERE data -> '$.data' ->> 'op' = 'enqueue' AND ` + ofIt,
			"a message was not admitted once"},
		{`UPDATE events SET data = json_set(data, '$.class', 'queue.changed', '$.data', json('{"op":"enqueue"}'))
			WHERE data ->> '$.class' = 'turn.started' AND ` + ofIt, "a message was not admitted once"},
		{`UPDATE events SET data = json_set(data, '$.class', 'queue.changed', '$.data', json('{"status":"x"}'))
			WHERE data ->> '$.class' = 'turn.started' AND ` + ofIt, "a message that ended did not end once"},
		{`UPDATE entries SET status = 'queued' WHERE message_id = (` + oneMessage + `)`,
			"a message that has not ended ended"},
		{`UPDATE attempts SET message_id = (` + oneMessage + `)`, "a message was worked off twice"},
		{`INSERT INTO attempts (id, agent_id, message_id, wait_id, status, created_at, data) SELECT 'att_' ` +
			`|| value, 'a', (` + oneMessage +
			`), '', 'interrupted', 0, '{}' FROM json_each('[1,2,3]')`, "a message came back twice"},
		{`UPDATE attempts SET status = 'not_begun'`, "a message is processed without a turn"},
		{`UPDATE entries SET status = 'interjected'`, "a message was interjected and worked off"},
		{`UPDATE events SET turn_id = (SELECT max(id) FROM turns)`, "a turn began twice"},
		{`UPDATE events SET turn_id = (SELECT max(id) FROM turns)`, "a turn ended twice"},
		{`DELETE FROM turns WHERE number = 2`, "a turn that began has no end"},
		{`DELETE FROM turns WHERE number = 2`, "an attempt that had a turn has none"},
		{`DELETE FROM attempts WHERE json_extract(data, '$.turn_index') = 2`, "a turn belongs to no attempt"},
		{`DELETE FROM turns WHERE number = 1`, "an agent's turns have a gap"},
		{`UPDATE waits SET data = json_set(data, '$.wake_sources', json('[]'))`, "a wait has no source that ends it"},
		{`UPDATE waits SET status = 'triggered', message_id = (` + oneMessage + `)`,
			"a wait is triggered by a message that is not queued"},
		{`UPDATE timers SET data = json_set(data, '$.fire_count', 2)`, "a timer did not fire as often as it says"},
		{`UPDATE timers SET data = json_set(data, '$.fire_count', 2)`, "a timer for one time fired otherwise"},
	})
}

func TestBrokenRecordIsFound(t *testing.T) {
	t.Parallel()
	look := func(l *Ledger) error { return l.Recorded(t.Context()) }
	findPlanted(t, look, []planted{
		{`UPDATE events SET data = json_set(data, '$.class', 'turn.started') WHERE data ->> '$.class' = 'turn.submitted'`, "breaks V19"},
		{`UPDATE events SET seq = seq + 1000 WHERE data ->> '$.class' = 'turn.completed'`, "breaks V5"},
	})
}

func TestUnrestIsFound(t *testing.T) {
	t.Parallel()
	look := func(l *Ledger) error { return l.Quiet(t.Context()) }
	findPlanted(t, look, []planted{
		{`UPDATE entries SET status = 'dequeued' WHERE number = 1`, "a message waits"},
		{`UPDATE attempts SET status = 'open' WHERE json_extract(data, '$.turn_index') = 1`, "an attempt is open"},
		{`UPDATE waits SET status = 'triggered'`, "a wait is triggered"},
		{`UPDATE waits SET due_at = 1`, "a wait ends soon"},
		{`UPDATE agent_states SET data = json_set(data, '$.pending_wake', json('{"reason":"x"}'))`, "a wake hint is kept"},
		{`UPDATE timers SET status = 'active'`, "a timer is active"},
	})
}

func plant(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	expect.NoError(t, err)
	res, err := db.ExecContext(context.WithoutCancel(t.Context()), statement)
	if err != nil {
		t.Fatal(statement, err)
	}
	if n, err := res.RowsAffected(); n == 0 || err != nil {
		t.Fatalf("%s changes nothing (%v)", statement, err)
	}
	expect.NoError(t, db.Close())
}

// Rows of an agent that is not there are found.
func TestUnsound(t *testing.T) {
	look := func(l *Ledger) error { return l.Sound(t.Context()) }
	findPlanted(t, look, []planted{{`DELETE FROM agents`, "foreign_key_check"}})
}

func TestRan(t *testing.T) {
	turns := map[string]bool{"turn_1": true}
	for name, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"two commands": {"turn_1 1.1\nturn_1 2.1\n", true},
		"twice":        {"turn_1 1.1\nturn_1 1.1\n", false},
		"no turn":      {"turn_2 1.1\n", false},
		"no line":      {"turn_1\n", false},
	} {
		path := filepath.Join(t.TempDir(), "ran")
		expect.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
		if ran, err := Ran(path, turns); (err == nil) != tc.ok || tc.ok && len(ran) != 2 {
			t.Errorf("%s: %v, %v", name, ran, err)
		}
	}
	if _, err := Ran(filepath.Join(t.TempDir(), "none"), turns); err != nil {
		t.Error(err)
	}
}
