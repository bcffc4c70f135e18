package agent_test

import (
	"context"
	"path/filepath"
	"testing"

	"holon/internal/redact"
	"holon/runner/agent"
	"holon/test/memory"
)

// What an agent was shown is known as a secret after a restart too.
func TestTriggersAtStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory.Dir(t), "ledger.db")
	var id, token string
	for range 3 {
		secrets := new(redact.Set)
		l := newAlone(t, path, stillHomes{}, func(c *agent.Config) { c.Secrets, c.TriggerKey = secrets, []byte("key") })
		if token != "" && secrets.Text(token) != redact.Mask {
			t.Error("a token that was shown is not known as a secret")
		}
		shown, again, err := l.runtime.RevealTrigger(context.Background(), "main")
		if err != nil || id != "" && (shown.ID != id || again != token) || secrets.Text(again) != redact.Mask {
			t.Errorf("shown is %+v, %v", shown, err)
		}
		id, token = shown.ID, again
		l.close()
	}
}
