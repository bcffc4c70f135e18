package conversation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holon/responses/turns"
	"holon/runner"
	"holon/state"
	"holon/test/expect"
)

// saved are the sessions that were saved: in the directory of another home, but for trees and containers.
type saved struct {
	mu     sync.Mutex
	home   state.Home // from which they are
	to     state.Home
	refuse error
	tries  int
}

func (f *saved) Save(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tries++; f.refuse != nil {
		return f.refuse
	}
	dir := f.to.SessionDir(id)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err := os.CopyFS(dir, os.DirFS(f.home.SessionDir(id)))
	for _, name := range []string{treeDir, objectsDir, emptyDir, state.SessionFile} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	return err
}

func (f *saved) Remove(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	return os.RemoveAll(f.to.SessionDir(id))
}

// A session goes on where it was saved: with its conversation, and files as it began. What was changed before is not
// there, and both the session and its manifest name that. A turn that was cut has an end.
func TestMoves(t *testing.T) {
	t.Parallel()
	files := new(saved)
	l := newLab(t, func(o *Options) { files.home, o.Files = o.Home, files })
	var err error
	files.to, err = state.MakeHome(filepath.Join(l.dir, "other"), "")
	expect.NoError(t, err)
	expect.NoError(t, os.MkdirAll(files.to.SessionsDir(), 0o700))
	x := l.start(Ask{Name: "mine", Workspace: l.repo})
	first := l.turn(x)
	_, err = x.begin("turn_cut", "", func(error) {})
	expect.NoError(t, err)
	expect.NoError(t, l.Save(t.Context()))
	expect.NoError(t, l.pool.Close(t.Context()))
	expect.Equal(t, "lost", x.Info().TreeLostAt, turns.Time{})

	l.home, l.opts.Home, l.opts.Files = files.to, files.to, nil
	l.restart()
	x, err = l.OfResponse("ann", first.Response.ID)
	expect.NoError(t, err)
	lost, used := x.Info().TreeLostAt, x.Info().LastUsedAt
	if lost.IsZero() || !used.Time().Before(lost.Time()) {
		t.Errorf("its files are missed from %v on, and it was used %v", lost, used)
	}
	stop := l.run()
	l.wait("the end of the turn that was cut", func() bool { return x.Info().Activity == "stopped" })
	stop()
	made, err := x.Turns()
	expect.NoError(t, err)
	expect.Equal(t, "the files after the first turn", made[0].Kept, false)
	second := l.turn(x)
	expect.Equal(t, "continues", *second.Response.PreviousResponseID, first.Response.ID)
	diff, err := x.Diff(t.Context())
	expect.NoError(t, err)
	expect.Equal(t, "changes since", len(diff.Files), 1)
	_, err = x.Rewind(t.Context(), first.Response.ID, false, "ann")
	expect.Equal(t, "code", code(err), string(CodeNotKept))
	l.open()
	x, err = l.Find("ann", "mine")
	expect.NoError(t, err)
	expect.Equal(t, "lost once", x.Info().TreeLostAt, lost)
	m, err := x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	expect.Contains(t, "warnings", strings.Join(m.Warnings, "\n"), "stayed on another host")
}

// A change is saved before its answer ends, also where saving fails for a while. A session is removed from the store
// before it is removed here.
func TestSaves(t *testing.T) {
	t.Parallel()
	files := &saved{refuse: errors.New("no bucket answers")}
	l := newLab(t, func(o *Options) { files.home, o.Files = o.Home, files })
	var err error
	files.to, err = state.MakeHome(filepath.Join(l.dir, "other"), "")
	expect.NoError(t, err)
	has := func(x *Session, name, text string) func() bool {
		return func() bool {
			data, err := os.ReadFile(filepath.Join(files.to.SessionDir(x.id), name))
			return err == nil && strings.Contains(string(data), text)
		}
	}
	stop := l.run()
	x := l.start(Ask{})
	l.wait("a try", func() bool { files.mu.Lock(); defer files.mu.Unlock(); return files.tries > 0 })
	ended := make(chan runner.End, 1)
	go func() { ended <- l.turn(x) }()
	l.wait("the turn", func() bool { return x.Info().Usage.Turns == 1 })
	files.set(nil)
	end := <-ended
	expect.Equal(t, "the turn", has(x, logFile, `"ended":"`+end.TurnID+`"`)(), true)
	x.Deleted(end.Response.ID)
	expect.Equal(t, "the deletion", has(x, logFile, `"deleted":"`+end.Response.ID+`"`)(), true)
	_, err = x.Rewind(t.Context(), "", true, "ann")
	expect.NoError(t, err)
	expect.Equal(t, "going back", has(x, logFile, `"rewound"`)(), true)
	_, err = x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	expect.Equal(t, "the end", has(x, state.ManifestFile, "")() && has(x, recordFile, `"finished": true`)(), true)
	stop()
	files.set(errors.New("no bucket answers"))
	if err := x.remove(t.Context()); err == nil {
		t.Error("it is removed here alone")
	}
	expect.Equal(t, "sessions", len(l.List("")), 1)
	files.set(nil)
	expect.NoError(t, x.remove(t.Context()))
	expect.Equal(t, "unsaved", len(l.unsaved), 0)
	if has(x, recordFile, "")() {
		t.Error("it is still saved")
	}
}

func (f *saved) set(refuse error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

// A session that could not be loaded is not opened from what an earlier process left of it.
func TestLeft(t *testing.T) {
	t.Parallel()
	left := make(map[string]bool)
	l := newLab(t, func(o *Options) { o.Left = left })
	x, other := l.start(Ask{}), l.start(Ask{})
	left[x.id] = true
	l.open()
	expect.Equal(t, "sessions", len(l.List("")), 1)
	_, err := l.Find("ann", other.id)
	expect.NoError(t, errors.Join(err, os.Remove(x.dir(recordFile))))
}
