package agent_test

import (
	"path/filepath"
	"slices"
	"testing"

	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
)

// What a killed process claimed is taken over by the next one, which says so; a process that starts after one that
// ended in good order has nothing to tell.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	l := newLab(t, `rounds: [{text: here}]`)
	l.start()
	l.untilStatus(l.prompt("one", "", ""), ledger.Processed)
	l.end()
	l.start()
	message := l.prompt("two", "", "")
	l.untilStatus(message, ledger.Processed)
	if types := l.events(); slices.Contains(types, record.RuntimeWarning) ||
		slices.Contains(types, record.HistoryReconstructed) {
		t.Errorf("a restart in good order is told as a loss: %v", types)
	}
	l.end()
	l.claimAsAnother()
	l.start()
	defer l.end()
	l.until("the message to be processed", func(v ledger.View) (bool, error) {
		n, err := v.CountQueued("main")
		return n == 0 && len(l.turns()) == 3, err
	})
	types := l.events()
	at := slices.Index(types, record.HistoryReconstructed)
	if at < 1 || types[at-1] != record.RuntimeWarning {
		t.Errorf("that an attempt was taken over is not told: %v", types)
	}
}

// claimAsAnother admits and claims a message as a process that is killed then.
func (l *lab) claimAsAnother() {
	l.t.Helper()
	ctx := l.t.Context()
	store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(l.home.Dir(), "ledger.db"), Log: l.log})
	expect.NoError(l.t, err)
	m := scheduler.New(store, scheduler.Options{Owner: "killed"})
	_, err = m.Admit(ctx, said("main", "three"))
	expect.NoError(l.t, err)
	if _, ok, err := m.Claim(ctx, "main"); !ok || err != nil {
		l.t.Fatalf("claim: %v, %v", ok, err)
	}
	expect.NoError(l.t, store.Close())
}
