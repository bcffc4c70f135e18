package record

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
	events := turn.Journal.Follow()
	play(t, turn, em, scope)
	if seen, _ := events.Next(t.Context()); bytes.Contains(seen, []byte(responses.EventCompleted)) {
		t.Error("the end is visible before it is committed")
	}
	if _, err := s.Load("resp_1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the response is stored before it is committed: %v", err)
	}
	must(t, turn.Commit(em.Response(), turns.Totals{Rounds: 2}, scope.Event(turns.TurnCompleted, turns.Completed{})))
	if seen, err := events.Next(t.Context()); !bytes.Contains(seen, []byte(responses.EventCompleted)) {
		t.Errorf("the end is not visible: %s (%v)", seen, err)
	}
	must(t, turn.Close())
	items, head, err := s.Chain("resp_1")
	if err != nil || len(items) != 6 || head != "sess_1" {
		t.Errorf("the chain has %d items, %+v, %v", len(items), head, err)
	}
	rec, err := ReadRecord(turn.Dir)
	if err != nil || rec.Status != responses.StatusCompleted || rec.Rounds != 2 {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	if settled, err := settleAll(s); len(settled) != 0 || err != nil {
		t.Errorf("a committed turn is settled again: %v, %v", settled, err)
	}
}

func TestAnUnstoredResponseLeavesNoTrajectory(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, em, scope := begin(t, s, dir, `{"input":"hi","store":false}`)
	play(t, turn, em, scope)
	must(t, turn.Commit(em.Response(), turns.Totals{}, scope.Event(turns.TurnCompleted, turns.Completed{})), turn.Close())
	if _, err := s.Load("resp_1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("load: %v", err)
	}
}

func TestBeginRefusesAndLeavesNothing(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"a record":  func(dir string) error { return os.WriteFile(filepath.Join(dir, turns.RecordFile), nil, 0o600) },
		"a journal": func(dir string) error { return os.WriteFile(filepath.Join(dir, turns.JournalFile), nil, 0o600) },
		"a link":    func(dir string) error { return os.Symlink("/nowhere", filepath.Join(dir, turns.EventsFile)) },
		"no folder": func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir)
			out := filepath.Join(dir, "out")
			must(t, os.Mkdir(out, 0o700), prepare(out))
			before := tree(t, dir)
			resp := responses.Response{ID: "resp_1", Status: responses.StatusInProgress}
			_, err := s.Begin(out, turns.Record{}, Header{ResponseID: "resp_1", Response: resp}, nil, nil, now)
			if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != "holon.output_dir" {
				t.Errorf("error %v", err)
			}
			if after := tree(t, dir); !slices.Equal(before, after) {
				t.Errorf("before %v, after %v", before, after)
			}
		})
	}
}

func TestDiscardLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	before := tree(t, dir)
	turn, _, _ := begin(t, s, dir, `{"input":"hi"}`)
	must(t, turn.Discard())
	if after := tree(t, dir); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return names
}

func TestArtifacts(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir) // `agentd run` has its state in the turn's directory
	must(t,
		os.WriteFile(filepath.Join(dir, "report.md"), []byte("x"), 0o600),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link")),
		os.WriteFile(filepath.Join(dir, turns.EventsFile), nil, 0o600), os.Mkdir(filepath.Join(dir, "b"), 0o700),
		os.WriteFile(filepath.Join(dir, "b", "a"), nil, 0o600))
	list, err := s.artifacts(dir)
	switch {
	case err != nil:
		t.Errorf("unexpected error: %v", err)
	case len(list) != 2:
		t.Errorf("len(list) = %d (%+v), want 2", len(list), list)
	case list[0].Path != "b/a":
		t.Errorf(`list[0].Path = %q, want "b/a"`, list[0].Path)
	case list[1].Path != "report.md":
		t.Errorf(`list[1].Path = %q, want "report.md"`, list[1].Path)
	case list[1].Bytes != 1:
		t.Errorf("list[1].Bytes = %d, want 1", list[1].Bytes)
	}
}
