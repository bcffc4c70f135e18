package agentd_test

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// flood is a model that talks until it is stopped. As flood/some it says
// 1 MiB and then waits to be stopped.
type flood struct{}

// Stream implements model.Transport.
func (flood) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		text := strings.Repeat("x", 16<<10)
		for n := 0; ctx.Err() == nil; n++ {
			if req.Model == "some" && n == 64 {
				<-ctx.Done()
				break
			}
			if !yield(model.Event{Kind: model.TextDelta, Text: text}, nil) {
				return
			}
		}
		yield(model.Event{}, model.Cancelled(ctx))
	}
}

// small gives the server a disk of its own for records: 8 MiB, of which a file
// named ballast takes all but 256 KiB.
func small(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	dir, err := os.MkdirTemp("", "agentd")
	expect.NoError(t, err)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		_ = os.Remove(dir)
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		_ = os.Remove(dir)
	})
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 8<<20-256<<10), 0o600))
	return dir
}

func TestDiskFullInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	disk := small(t)
	h := start(t, func(c *config.Config, _ *agentd.Parts) {
		c.Dirs.Output, c.Dirs.State = filepath.Join(disk, "output"), filepath.Join(disk, "state")
	})
	ref := h.scenario("hello", hello)
	full := h.post(`{"model":"flood/any","input":"go","stream":true,"holon":{"turn_id":"turn_a"}}`)
	seen := lines(full.body)
	last := bytes.Split(bytes.TrimSpace(seen), []byte{'\n'})
	ev, err := responses.DecodeEvent(last[len(last)-1])
	expect.NoError(t, err)
	if ev.Type != responses.EventFailed || ev.Response.Error.Code != responses.CodeDiskFull {
		t.Fatalf("the turn ends with %s, %+v", ev.Type, ev.Response.Error)
	}
	// The client learns of it from the log, and need not wait for the turn.
	eventually(t, "the turn is over", func() bool { return h.health().ActiveTurns == 0 })
	expect.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
	eventually(t, "the record has its end, without another request", func() bool {
		return h.record("turn_a").Status.Terminal()
	})
	if resp := h.post(`{"model":"` + ref + `","input":"hi"}`).response(t); resp.Status != responses.StatusCompleted {
		t.Errorf("afterwards a turn is %s", resp.Status)
	}
	// Now that there is room, the record says what the client was told.
	rec := h.record("turn_a")
	if rec.Status != responses.StatusFailed || rec.Error == nil || rec.Error.Code != responses.CodeDiskFull {
		t.Errorf("%+v", rec)
	}
	file, err := os.ReadFile(h.file("turn_a", turns.EventsFile))
	if err != nil || !bytes.Equal(file, seen) {
		t.Errorf("the file has %d bytes and the client saw %d (%v)", len(file), len(seen), err)
	}
	if again := h.post(`{"model":"flood/any","input":"go","stream":true,"holon":{"turn_id":"turn_a"}}`); !bytes.Equal(
		again.body, full.body) {
		t.Errorf("the same request gets another stream: %.300s", again.body)
	}
}

// A JSON client gets the same news as an error.
func TestDiskFullWithoutAStream(t *testing.T) {
	t.Parallel()
	disk := small(t)
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Dirs.Output = filepath.Join(disk, "output") })
	a := h.post(`{"model":"flood/any","input":"go","holon":{"turn_id":"turn_a"}}`)
	a.refused(t, http.StatusInsufficientStorage, responses.CodeDiskFull)
}

func TestLowDiskIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Turns.MinFree = 1 << 62 })
	a := h.post(`{"input":"go","holon":{"turn_id":"turn_a"}}`)
	if e := a.failure(t); e.Code != responses.CodeDiskFull || a.status != http.StatusInsufficientStorage ||
		e.Hint == "" {
		t.Errorf("%+v, %d %.300s", e, a.status, a.body)
	}
	if left, err := os.ReadDir(h.cfg.Dirs.Output); err != nil || len(left) != 0 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
}
