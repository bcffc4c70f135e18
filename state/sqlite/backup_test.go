package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/memory"
)

// A backup is made while others write, as another process would, and what is restored goes on under another epoch.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	s := openAt(t, path)
	defer s.Close()
	appendTo(t, s, 10)
	to, restored := filepath.Join(dir, "backup"), filepath.Join(dir, "restored.db")
	before := newestEvent(t, s)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := s.Update(context.WithoutCancel(t.Context()), func(tx ledger.Tx) error {
				return tell(tx, 3)
			}); err != nil {
				done <- err
				return
			}
		}
	}()
	err := Backup(t.Context(), path, to)
	close(stop)
	expect.NoError(t, errors.Join(err, <-done))
	if _, err := Restore(t.Context(), to, restored, false); err != nil {
		t.Fatal(err)
	}
	copied := openAt(t, restored)
	if copied.Epoch() == s.Epoch() || copied.Epoch() == "" {
		t.Errorf("epoch %q, that of the original is %q", copied.Epoch(), s.Epoch())
	}
	expect.NoError(t, copied.View(t.Context(), func(v ledger.View) error {
		l, err := v.AgentState("a")
		page, pageErr := v.Events("a", ledger.EventQuery{Limit: 1 << 30})
		if n := int64(len(page.Events)); n < before || n != l.EventSeq || n != page.Newest {
			t.Errorf("%d events of %d at least, the state is %+v", n, before, l)
		}
		return errors.Join(err, pageErr)
	}))
	appendTo(t, copied, 1)
	if old, new := copied.EpochOf("a", 1), copied.EpochOf("a", newestEvent(t, copied)); old != s.Epoch() ||
		new != copied.Epoch() {
		t.Errorf("an event of the backup has the epoch %q and a new one %q, want %q and %q", old, new,
			s.Epoch(), copied.Epoch())
	}
	if had := copied.EpochOf("a", 1); copied.SharedThrough("a", had) != newestEvent(t, copied)-1 ||
		copied.SharedThrough("a", copied.Epoch()) < newestEvent(t, copied) || copied.SharedThrough("a", "other") != 0 ||
		copied.SharedThrough("b", "other") != 0 {
		t.Errorf("a reader of %q has %d events in common, one of %q %d, one of another epoch %d", had,
			copied.SharedThrough("a", had), copied.Epoch(), copied.SharedThrough("a", copied.Epoch()),
			copied.SharedThrough("a", "other"))
	}
	expect.NoError(t, copied.Close())
	for _, path := range []string{to, restored} {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := Restore(t.Context(), to, restored, false); !state.IsCode(err, ledger.CodeExists) {
		t.Errorf("a ledger was replaced: %v", err)
	}
	if err := Backup(t.Context(), path, to); !state.IsCode(err, ledger.CodeExists) {
		t.Errorf("a backup was replaced: %v", err)
	}
}

func TestBackupOfAClosedLedger(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	s := openAt(t, path)
	appendTo(t, s, 3)
	expect.NoError(t, s.Close())
	expect.NoError(t, Backup(t.Context(), path, filepath.Join(dir, "copy")))
	s = openAt(t, filepath.Join(dir, "copy"))
	expect.Equal(t, "newest event", newestEvent(t, s), 3)
	expect.NoError(t, s.Close())
}

func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	to := filepath.Join(dir, "copy")
	if err := Backup(t.Context(), path, to); !state.IsCode(err, ledger.CodeUnreadable) {
		t.Errorf("backup of nothing: %v", err)
	}
	expect.NoError(t, os.WriteFile(path, []byte("text that is not a database"), 0o600))
	if err := Backup(t.Context(), path, to); !state.IsCode(err, ledger.CodeUnreadable) {
		t.Errorf("backup of a text: %v", err)
	}
	real := filepath.Join(dir, "real")
	expect.NoError(t, openAt(t, real).Close())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	expect.ErrorIs(t, "backup after the end", Backup(ended, real, to), context.Canceled)
	expect.NoError(t, os.WriteFile(to+"-wal", []byte("of another"), 0o600))
	if _, err := Restore(t.Context(), real, to, false); !state.IsCode(err, ledger.CodeExists) {
		t.Errorf("restore next to a log: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A ledger that was closed is one file, also after others have read it, so that a copy of the file is the ledger.
func TestClosedLedgerIsOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory.Dir(t), "ledger.db")
	s := openAt(t, path)
	appendTo(t, s, 3)
	newestEvent(t, s) // opens a reader
	expect.NoError(t, s.Close())
	if there := parts(path); len(there) != 1 || there[0] != path {
		t.Fatalf("the closed ledger is %v, want one file", there)
	}
}

// What is in the way of a restoration is named at once, and moved aside together: it is a ledger there, with what only
// its log had.
func TestRestoreReplaces(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	path, backup := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "backup")
	s := openAt(t, path)
	appendTo(t, s, 2)
	expect.NoError(t, Backup(t.Context(), path, backup))
	appendTo(t, s, 3)
	killed := filepath.Join(dir, "killed.db") // as a process that is killed leaves it
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		expect.NoError(t, err)
		expect.NoError(t, os.WriteFile(killed+suffix, data, 0o600))
	}
	expect.NoError(t, s.Close())

	_, err := Restore(t.Context(), backup, killed, false)
	if !state.IsCode(err, ledger.CodeExists) || !strings.Contains(err.Error(), killed+"-wal, "+killed) {
		t.Errorf("error %v, want one that names all files", err)
	}
	if _, err := Restore(t.Context(), path+".none", killed, true); !state.IsCode(err, ledger.CodeUnreadable) {
		t.Errorf("restore of nothing: %v", err)
	}
	expect.Equal(t, "files after refusals", len(parts(killed)), 2)
	aside, err := Restore(t.Context(), backup, killed, true)
	expect.NoError(t, err)
	for at, events := range map[string]int64{killed: 2, aside: 5} {
		l := openAt(t, at)
		expect.Equal(t, "events of "+at, newestEvent(t, l), events)
		expect.NoError(t, l.Close())
	}

	// A damaged one is moved aside as it is, with its log.
	expect.NoError(t, os.WriteFile(killed, []byte("text that is not a database"), 0o600))
	expect.NoError(t, os.WriteFile(killed+"-wal", []byte("its log"), 0o600))
	aside, err = Restore(t.Context(), backup, killed, true)
	expect.NoError(t, err)
	expect.Equal(t, "files of the damaged one", len(parts(aside)), 2)
}
