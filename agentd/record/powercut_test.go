package record

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

// disk records what a power cut would leave of a turn: of each file what it held when it was last synced.
type disk struct {
	mu     sync.Mutex
	synced map[string][]byte
	cuts   []cut
	turn   atomic.Pointer[Turn]
}

// cut is the disk after a sync, and how much of the stream was visible until the next one.
type cut struct {
	files   map[string][]byte
	visible int64
}

// watch makes d record every sync until the end of the test.
func (d *disk) watch(t *testing.T) {
	d.synced = make(map[string][]byte)
	real := datasync
	t.Cleanup(func() { datasync = real })
	datasync = func(f *os.File) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.look()
		data, err := os.ReadFile(f.Name()) // before the sync: what comes meanwhile may be lost
		if err != nil {
			return err
		}
		if err := real(f); err != nil {
			return err
		}
		d.synced[f.Name()] = data
		d.cuts = append(d.cuts, cut{files: maps.Clone(d.synced)})
		return nil
	}
}

// look notes what is visible of the stream. The caller holds mu.
func (d *disk) look() {
	if turn := d.turn.Load(); turn != nil && len(d.cuts) > 0 {
		d.cuts[len(d.cuts)-1].visible, _, _, _ = turn.Events.state()
	}
}

// The power is cut after each sync, with nothing on disk that was not synced. The turn is then unknown, or it is
// settled and has everything that a client has seen.
func TestPowerCutAfterEverySync(t *testing.T) {
	base := t.TempDir()
	var d disk
	d.watch(t)
	s := newStore(t, base)
	turn, em, scope := begin(t, s, base, `{"input":"hi"}`)
	d.turn.Store(turn)
	play(t, turn, em, scope)
	must(t, turn.Commit(em.Response(), Totals{Rounds: 2}, scope.TurnCompleted(turns.Completed{})))
	d.mu.Lock()
	d.look()
	d.mu.Unlock()
	stream, err := os.ReadFile(filepath.Join(turn.Dir, turns.EventsFile))
	must(t, err, turn.Close(), s.Close())
	if last := d.cuts[len(d.cuts)-1]; last.visible != int64(len(stream)) {
		t.Fatalf("%d of %d bytes of the stream are visible after the commit", last.visible, len(stream))
	}
	for n, cut := range d.cuts {
		t.Run(fmt.Sprintf("after sync %d of %d", n+1, len(d.cuts)), func(t *testing.T) {
			must(t, os.RemoveAll(s.dir), os.RemoveAll(turn.Dir))
			for path, data := range cut.files {
				must(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600))
			}
			again := newStore(t, base)
			settled, err := again.Settle(now)
			must(t, err)
			if _, known := cut.files[s.openPath("resp_1")]; !known {
				if len(settled) > 0 || cut.visible > 0 {
					t.Errorf("settled %v and %d bytes were visible, want nothing", settled, cut.visible)
				}
				return
			}
			if len(settled) != 1 {
				t.Fatalf("settled %v, want the turn", settled)
			}
			if got := checkStream(t, turn.Dir); !bytes.HasPrefix(got, stream[:cut.visible]) {
				t.Errorf("the stream is\n%s\nbut this was visible:\n%s", got, stream[:cut.visible])
			}
			rec, err := ReadRecord(turn.Dir)
			must(t, err)
			checkFacts(t, turn.Dir, rec)
			if whole := cut.visible == int64(len(stream)); whole && rec.Status != responses.StatusCompleted {
				t.Errorf("a client saw the turn complete, and it is %s", rec.Status)
			}
			must(t, again.Close())
		})
	}
}

// A commit whose sync fails shows no client the end, and the turn can be settled.
func TestASyncThatFails(t *testing.T) {
	var broken atomic.Bool
	real := datasync
	t.Cleanup(func() { datasync = real })
	datasync = func(f *os.File) error {
		if broken.Load() {
			return syscall.EIO
		}
		return real(f)
	}
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
	play(t, turn, em, scope)
	broken.Store(true)
	err := turn.Commit(em.Response(), Totals{}, scope.TurnCompleted(turns.Completed{}))
	if err == nil {
		t.Fatal("the turn was committed")
	}
	broken.Store(false)
	turn.Abort(err)
	var seen []byte
	for f := turn.Events.Follow(); ; {
		lines, err := f.Next(t.Context())
		if err != nil {
			break
		}
		seen = append(seen, lines...)
	}
	if bytes.Contains(seen, []byte(responses.EventCompleted)) {
		t.Errorf("the end is visible:\n%s", seen)
	}
	must(t, turn.Close())
	if _, err := s.SettleTurn("resp_1", &Interrupted, now); err != nil {
		t.Fatal(err)
	}
	if got := checkStream(t, turn.Dir); !bytes.HasPrefix(got, seen) {
		t.Errorf("the stream is\n%s\nbut this was visible:\n%s", got, seen)
	}
}
