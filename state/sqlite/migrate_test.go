package sqlite

import (
	"fmt"
	"testing"

	"holon/state/ledger"
)

// A queue of before senders were recorded is put in their order.
func TestMigrateSenders(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	messages := []ledger.Message{
		{Kind: ledger.KindInternalFollowup, Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "enqueue_tool"},
			Priority: ledger.Next},
		{Kind: ledger.KindTimerTick, Origin: ledger.Origin{Kind: ledger.OriginTimer, TimerID: "wait_1"},
			Priority: ledger.Normal},
		{Kind: ledger.KindWebhookEvent, Origin: ledger.Origin{Kind: ledger.OriginWebhook}, Priority: ledger.Next},
		{Kind: ledger.KindSystemTick, Origin: ledger.Origin{Kind: ledger.OriginSystem},
			SourceRefs: map[string]string{"external_trigger_id": "trg_1"}, Priority: ledger.Normal},
		{Kind: ledger.KindSystemTick, Origin: ledger.Origin{Kind: ledger.OriginSystem}, Priority: ledger.Normal},
		{Kind: ledger.KindTimerTick, Origin: ledger.Origin{Kind: ledger.OriginTimer, TimerID: "tmr_1"},
			Priority: ledger.Normal},
		{Kind: ledger.KindOperatorPrompt, Origin: ledger.Origin{Kind: ledger.OriginOperator},
			Priority: ledger.Background},
	}
	err := s.Update(t.Context(), func(tx ledger.Tx) error {
		if err := tx.InsertAgent(ledger.Agent{ID: "a"}, ledger.AgentState{AgentID: "a"}); err != nil {
			return err
		}
		for i, m := range messages {
			m.ID, m.AgentID, m.Number = fmt.Sprint("m", i), "a", int64(i+1)
			if err := tx.InsertMessage(m, ledger.Entry{MessageID: m.ID, AgentID: "a", Number: m.Number,
				Priority: m.Priority, Status: ledger.Queued}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"UPDATE entries SET band = band % 4", "ALTER TABLE entries DROP COLUMN sender",
		"ALTER TABLE entries DROP COLUMN code",
		"ALTER TABLE events DROP COLUMN class", "ALTER TABLE events DROP COLUMN status",
		"ALTER TABLE events DROP COLUMN ids", "ALTER TABLE events DROP COLUMN cause",
		"ALTER TABLE events DROP COLUMN producer_seq", "DROP TABLE tool_executions",
		"DROP TABLE delivery_summaries", "DROP TABLE work_items", "DROP TABLE expired_outputs", "DROP TABLE tasks",
		"DROP TABLE commands",
		"PRAGMA user_version = 1"} {
		if err := s.writer.conn.script(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	defer s.Close()
	var got []string
	err = s.View(t.Context(), func(v ledger.View) error {
		queued, err := v.Queued("a", 10)
		for _, e := range queued {
			got = append(got, fmt.Sprint(e.Number, " ", e.Sender))
		}
		return err
	})
	if want := "[7 operator 5 runtime 6 runtime 3 outside 4 outside 1 self 2 self]"; fmt.Sprint(got) != want ||
		err != nil {
		t.Errorf("the queue is %v (%v), want %s", got, err, want)
	}
}

// Turns of a ledger in which each had a page of its own are kept, in their order.
func TestMigrateTurns(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	if err := s.Update(t.Context(), func(tx ledger.Tx) error {
		return tx.InsertAgent(ledger.Agent{ID: "a"}, ledger.AgentState{AgentID: "a"})
	}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"DROP TABLE tasks", "DROP TABLE turns", `CREATE TABLE turns (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL
		REFERENCES agents (id), number INTEGER NOT NULL, response_id TEXT NOT NULL, created_at INTEGER NOT NULL,
		data TEXT NOT NULL, UNIQUE (agent_id, number)) STRICT, WITHOUT ROWID`,
		`INSERT INTO turns VALUES ('t1', 'a', 1, 'r1', 1, '{"turn_id":"t1"}'), ('t2', 'a', 2, 'r2', 2, '{"turn_id":"t2"}')`,
		"DROP TABLE commands", "ALTER TABLE entries DROP COLUMN code", "PRAGMA user_version = 5"} {
		if err := s.writer.conn.script(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	defer s.Close()
	err := s.View(t.Context(), func(v ledger.View) error {
		turns, err := v.Turns("a", 5)
		if len(turns) != 2 || turns[0].ID != "t1" || turns[1].ID != "t2" {
			t.Errorf("the turns are %+v", turns)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
