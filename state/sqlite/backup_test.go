package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"holon/state"
	"holon/state/ledger"
	"holon/test/memory"
)

// A backup is made while others write, through the store or as another
// process would, and what is restored goes on under another epoch.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	s := openAt(t, path)
	defer s.Close()
	appendTo(t, s, 10)
	for name, backup := range map[string]func(ctx context.Context, to string) error{
		"store":   s.Backup,
		"another": func(ctx context.Context, to string) error { return Backup(ctx, path, to) },
	} {
		to, restored := filepath.Join(dir, name), filepath.Join(dir, name+".db")
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
		err := backup(t.Context(), to)
		close(stop)
		if err := errors.Join(err, <-done); err != nil {
			t.Fatal(err)
		}
		if err := Restore(t.Context(), to, restored); err != nil {
			t.Fatal(err)
		}
		copied := openAt(t, restored)
		if copied.Epoch() == s.Epoch() || copied.Epoch() == "" {
			t.Errorf("%s: epoch %q, that of the original is %q", name, copied.Epoch(), s.Epoch())
		}
		if err := copied.View(t.Context(), func(v ledger.View) error {
			l, err := v.AgentState("a")
			page, pageErr := v.Events("a", ledger.EventQuery{Limit: 1 << 30})
			if n := int64(len(page.Events)); n < before || n != l.EventSeq || n != page.Newest {
				t.Errorf("%s: %d events of %d at least, the lane is %+v", name, n, before, l)
			}
			return errors.Join(err, pageErr)
		}); err != nil {
			t.Fatal(err)
		}
		appendTo(t, copied, 1)
		if old, new := copied.EpochOf("a", 1), copied.EpochOf("a", newestEvent(t, copied)); old != s.Epoch() ||
			new != copied.Epoch() {
			t.Errorf("%s: an event of the backup has the epoch %q and a new one %q, want %q and %q", name, old, new,
				s.Epoch(), copied.Epoch())
		}
		if had := copied.EpochOf("a", 1); copied.SharedThrough("a", had) != newestEvent(t, copied)-1 ||
			copied.SharedThrough("a", copied.Epoch()) < newestEvent(t, copied) || copied.SharedThrough("a", "other") != 0 ||
			copied.SharedThrough("b", "other") != 0 {
			t.Errorf("%s: a reader of %q has %d events in common, one of %q %d, one of another epoch %d", name, had,
				copied.SharedThrough("a", had), copied.Epoch(), copied.SharedThrough("a", copied.Epoch()),
				copied.SharedThrough("a", "other"))
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{to, restored} {
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
		if err := Restore(t.Context(), to, restored); !state.IsCode(err, ledger.CodeExists) {
			t.Errorf("%s: a ledger was replaced: %v", name, err)
		}
		if err := backup(t.Context(), to); !state.IsCode(err, ledger.CodeExists) {
			t.Errorf("%s: a backup was replaced: %v", name, err)
		}
	}
}

func TestBackupOfAClosedLedger(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	s := openAt(t, path)
	appendTo(t, s, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Backup(t.Context(), path, filepath.Join(dir, "copy")); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, filepath.Join(dir, "copy"))
	if n := newestEvent(t, s); n != 3 {
		t.Errorf("newest event %d, want 3", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	path := filepath.Join(dir, "ledger.db")
	to := filepath.Join(dir, "copy")
	if err := Backup(t.Context(), path, to); !state.IsCode(err, ledger.CodeUnreadable) {
		t.Errorf("backup of nothing: %v", err)
	}
	if err := os.WriteFile(path, []byte("text that is not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Backup(t.Context(), path, to); !state.IsCode(err, ledger.CodeUnreadable) {
		t.Errorf("backup of a text: %v", err)
	}
	real := filepath.Join(dir, "real")
	if err := openAt(t, real).Close(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Backup(ended, real, to); !errors.Is(err, context.Canceled) {
		t.Errorf("backup after the end: %v", err)
	}
	if err := os.WriteFile(to+"-wal", []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Restore(t.Context(), real, to); !state.IsCode(err, ledger.CodeExists) {
		t.Errorf("restore next to a log: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
