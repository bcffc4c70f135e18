package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/responses"
	"holon/state"
	"holon/test/expect"
)

// A run that is interrupted ends the turn in good order and keeps its work.
func TestInterruptedDuringTheTurn(t *testing.T) {
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	if testing.Short() {
		signals = signals[:2] // all have one handler
	}
	for _, sig := range signals {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			p := h.beginPlay(repo, "slow")
			p.signal(sig)
			p.signal(sig) // a second one changes nothing
			r := p.wait()
			if r.code != 130 {
				t.Fatalf("exit code %d\n%s", r.code, r.stderr)
			}
			rec := checkRecord(t, r)
			switch {
			case r.manifest.Status != state.StatusCancelled:
				t.Errorf("r.manifest.Status = %q, want %q", r.manifest.Status, state.StatusCancelled)
			case r.manifest.Outcome != state.OutcomeCancelled:
				t.Errorf("r.manifest.Outcome = %q, want %q", r.manifest.Outcome, state.OutcomeCancelled)
			case rec.Status != responses.StatusCancelled:
				t.Errorf("rec.Status = %q, want %q", rec.Status, responses.StatusCancelled)
			}
			if want := "holon: " + r.manifest.RunID + ": cancelled by the user\n"; !strings.HasSuffix(r.stderr, want) {
				t.Errorf("stderr does not end with %q:\n%s", want, r.stderr)
			}
			checkChanged(t, r, "added made.txt", "added started")
		})
	}
}

// Whenever it is interrupted, a run leaves nothing behind; if it has a record,
// that is of a run that was interrupted.
func TestInterruptedInEveryPhase(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reach func(h *home) bool
	}{
		{"at once", func(h *home) bool { return exists(h, "runs") }},
		{"preparing", func(h *home) bool { return exists(h, "runs/run_*/run.json") }},
		{"starting", func(h *home) bool { return exists(h, "ipc/*") }},
		{"container made", func(h *home) bool { return len(h.containers()) > 0 }},
		{"listening", func(h *home) bool { return exists(h, "ipc/*/ipc/agent.sock") }},
		{"turn recorded", func(h *home) bool { return exists(h, "runs/*/session/output/turns/*/runtime.ndjson") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			p := h.begin(repo, "run", "--model", scripted(t, "slow"), "x")
			await(t, tc.name, func() bool { return tc.reach(h) })
			p.signal(os.Interrupt)
			r := p.wait()
			if r.code != 130 {
				t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
			if r.manifest == nil {
				if exists(h, "runs/run_*") {
					t.Errorf("a run without a record is left\n%s", r.stderr)
				}
				return
			}
			checkRecord(t, r)
			expect.Equal(t, "outcome", r.manifest.Outcome, state.OutcomeCancelled)
		})
	}
}

func exists(h *home, pattern string) bool {
	found, err := filepath.Glob(filepath.Join(h.dir, pattern))
	expect.NoError(h.t, err)
	return len(found) > 0
}

// An interruption after the turn was done does not undo it.
func TestInterruptedWhileCollecting(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	p := h.begin(repo, "run", "--model", scripted(t, "failing"), "x")
	await(t, "the end of the turn", func() bool {
		return exists(h, "runs/run_*/summary.md") || exists(h, "runs/run_*/events.ndjson") ||
			exists(h, "runs/run_*/manifest.json")
	})
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended meanwhile
	r := p.wait()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	checkRecord(t, r)
}

// A container that is gone in the middle of a turn ends the run with a record
// that is complete and an event stream that is legal.
func TestContainerGone(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  []string
	}{
		{"killed", []string{"kill"}},
		{"removed", []string{"rm", "-f"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			p := h.beginPlay(repo, "slow")
			docker(t, append(tc.end, h.containers()...)...)
			r := p.wait()
			if r.code != 1 {
				t.Fatalf("exit code %d\n%s", r.code, r.stderr)
			}
			rec := checkRecord(t, r)
			if f := r.failure(t); f.Code != "container_gone" || strings.Contains(f.Message, "level=INFO") {
				t.Errorf("%+v", f)
			}
			switch {
			case r.manifest.Status != state.StatusInterrupted:
				t.Errorf("r.manifest.Status = %q, want %q", r.manifest.Status, state.StatusInterrupted)
			case rec.Status != responses.StatusFailed:
				t.Errorf("rec.Status = %q, want %q", rec.Status, responses.StatusFailed)
			case rec.Error == nil:
				t.Error("rec.Error = nil, want a value")
			case rec.Error.Code != responses.CodeInterrupted:
				t.Errorf("rec.Error.Code = %q, want %q", rec.Error.Code, responses.CodeInterrupted)
			}
			checkChanged(t, r, "added made.txt", "added started")
		})
	}
}

// A container that somebody stops in good order is an interrupted run too.
func TestContainerStopped(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	p := h.beginPlay(repo, "slow")
	docker(t, append([]string{"stop", "--time", "30"}, h.containers()...)...)
	r := p.wait()
	if r.code != 1 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	rec := checkRecord(t, r)
	if r.manifest.Status != state.StatusInterrupted || !rec.Status.Terminal() {
		t.Errorf("manifest %s, record %s", r.manifest.Status, rec.Status)
	}
	checkChanged(t, r, "added made.txt", "added started")
}
