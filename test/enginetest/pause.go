package enginetest

import (
	"context"
	"testing"

	"holon/runner/engine"
	"holon/test/expect"
)

func (r Rig) testPause(t *testing.T) {
	b := r.open(t)
	p, ok := b.Engine.(engine.Pauser)
	expect.Equal(t, "the engine is a Pauser", ok, r.Contains && !r.Pods)
	if !ok {
		return
	}
	b.testPauseAndGoOn(t, p)
	b.testPausedEnds(t, p)

	created, exited := b.create(t, b.spec("serve")), b.start(t, b.spec("exit", "3"))
	b.wait(t, exited)
	for _, h := range []engine.Handle{created, exited} {
		wantCode(t, p.Pause(t.Context(), h), engine.CodeConflict)
		expect.NoError(t, p.Resume(t.Context(), h))
	}
	expect.NoError(t, b.Remove(t.Context(), exited))
	wantCode(t, p.Pause(t.Context(), exited), engine.CodeNotFound)
	wantCode(t, p.Resume(t.Context(), exited), engine.CodeNotFound)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Pause(ctx, b.startReady(t, b.spec("serve"))); err == nil {
		t.Error("a cancelled Pause succeeded")
	}
}

// testPauseAndGoOn checks that nothing of a paused program runs, and that it
// goes on where it was.
func (b *bench) testPauseAndGoOn(t *testing.T, p engine.Pauser) {
	h := b.startReady(t, b.spec("tick"))
	for range 2 {
		expect.NoError(t, p.Pause(t.Context(), h))
	}
	b.wantState(t, h, engine.StatusPaused)
	found, err := b.List(t.Context(), b.labels)
	if err != nil || len(found) != 1 || found[0].Status != engine.StatusPaused {
		t.Errorf("List = %+v, %v", found, err)
	}
	b.settled(t, h)
	for range 2 {
		expect.NoError(t, p.Resume(t.Context(), h))
	}
	b.wantState(t, h, engine.StatusRunning)
	for range 10 { // one right after the other: neither is lost
		expect.NoError(t, p.Pause(t.Context(), h))
		expect.NoError(t, p.Resume(t.Context(), h))
	}
	before := len(b.logs(t, h))
	eventually(t, "the resumed program's next line", func() bool { return len(b.logs(t, h)) > before })
}

// settled checks that the log of a paused program stops growing. What it had
// written before it was paused may still be on its way.
func (b *bench) settled(t *testing.T, h engine.Handle) {
	t.Helper()
	same, last := 0, ""
	eventually(t, "the end of what the paused program printed", func() bool {
		logs := b.logs(t, h)
		if logs != last {
			same = 0
		}
		last, same = logs, same+1
		return same == 20 // at 5 ms each; it printed a line each millisecond
	})
}

// testPausedEnds checks that a paused program can be stopped in good order and
// removed, and that its waiters hear of it.
func (b *bench) testPausedEnds(t *testing.T, p engine.Pauser) {
	stopped, removed := b.startReady(t, b.spec("serve")), b.startReady(t, b.spec("stubborn"))
	for _, h := range []engine.Handle{stopped, removed} {
		expect.NoError(t, p.Pause(t.Context(), h))
	}
	expect.NoError(t, b.Stop(t.Context(), stopped, patience))
	b.wantGraceful(t, stopped)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_, _ = b.Wait(t.Context(), removed) // its exit, or that it is not there
	}()
	expect.NoError(t, b.Remove(t.Context(), removed))
	<-waited
	_, err := b.Inspect(t.Context(), removed)
	wantCode(t, err, engine.CodeNotFound)
}
