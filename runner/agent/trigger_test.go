package agent_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"holon/internal/redact"
	"holon/runner/agent"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/memory"
)

// An agent of an earlier version gets its trigger at the next start, once; what an agent
// was told is known as a secret after a restart too.
func TestTriggersAtStart(t *testing.T) {
	t.Parallel()
	path, now := filepath.Join(memory.Dir(t), "ledger.db"), time.Now().UTC().Truncate(time.Millisecond)
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	expect.NoError(t, err)
	err = store.Update(t.Context(), func(tx ledger.Tx) error {
		return tx.Insert(&ledger.Agent{ID: "old", Kind: ledger.KindNamed, Visibility: ledger.Public, CreatedAt: now,
			UpdatedAt: now}, &ledger.AgentState{AgentID: "old", UpdatedAt: now})
	})
	expect.NoError(t, errors.Join(err, store.Close()))
	var id, token string
	for range 3 {
		secrets := new(redact.Set)
		l := newAlone(t, path, stillHomes{}, func(c *agent.Config) { c.Secrets, c.TriggerKey = secrets, []byte("key") })
		if token != "" && secrets.Text(token) != redact.Mask {
			t.Error("a token that was told is not known as a secret")
		}
		told, again, err := l.runtime.RevealTrigger(context.Background(), "old")
		if err != nil || id != "" && (told.ID != id || again != token) || secrets.Text(again) != redact.Mask {
			t.Errorf("told %+v, %v", told, err)
		}
		id, token = told.ID, again
		l.close()
	}
}
