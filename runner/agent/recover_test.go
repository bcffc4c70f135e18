package agent_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner"
	"holon/runner/agent/prompt"
	"holon/runner/agent/scheduler"
	"holon/runner/pool"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/memory"
)

// A turn that is taken up again has the prompt that it was sent, for its trace. One that began and of which nothing is
// left, as on another host, was interrupted.
func TestRecoveredPrompt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory.Dir(t), "ledger.db")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	expect.NoError(t, err)
	killed := scheduler.New(store, scheduler.Options{Owner: "boot_0"})
	_, err = killed.Create(t.Context(), scheduler.NewAgent{ID: "main"})
	if err == nil {
		_, err = killed.Admit(t.Context(), said("main", "go"))
	}
	claim, _, claimed := killed.Claim(t.Context(), "main")
	sent := prompt.Assemble(prompt.Input{Claim: claim})
	frame, digest, encoded := sent.Encode()
	expect.NoError(t, errors.Join(err, claimed, encoded, killed.Began(t.Context(), claim.Attempt.ID,
		scheduler.Sent{Prompt: frame, Digest: digest}), store.Close()))
	l := newAlone(t, path, stillHomes{}, nil)
	defer l.close()
	l.answered("main", claim.Message.ID)
	if again := l.played.last.Load().Prompt(); !strings.Contains(again, "was interrupted") { // it began, whatever is left
		t.Errorf("the message comes back as %q", again)
	}
	got := l.played.recovered.Load()
	if got == nil {
		got = &pool.Turn{Turn: runner.NewTurn("", "")}
	}
	if got.ID() != claim.Attempt.TurnID || got.Prompt() != sent.Prompt() || got.Prompt() == "" {
		t.Errorf("turn %s is recovered with the prompt %q, want %s with %q", got.ID(), got.Prompt(), claim.Attempt.TurnID,
			sent.Prompt())
	}
}
