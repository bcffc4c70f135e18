package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

// kill ends a store as SIGKILL does: nothing is flushed.
func kill(t *testing.T, s *Store) {
	t.Helper()
	must(t, s.lock.Close())
}

// boots counts the starts of the machine.
func boot(n int) string { return fmt.Sprintf("boot-%d", n) }

// openBooted opens a store in the nth run of the kernel.
func openBooted(t *testing.T, dir string, n int) *Store {
	t.Helper()
	s, err := openStoreIn(dir, boot(n))
	must(t, err)
	t.Cleanup(func() { _ = s.lock.Close() })
	return s
}

// files reads the four files of the turn that begin begins.
func (p paths) read(t *testing.T) map[string]string {
	t.Helper()
	content := make(map[string]string)
	for name, places := range p {
		for _, place := range places {
			if data, err := os.ReadFile(place); err == nil {
				content[name] = string(data)
			}
		}
	}
	return content
}

// paths are the places where each file of a turn may be.
type paths map[string][]string

func pathsOf(s *Store, dir string) paths {
	return paths{
		"trajectory":      {s.openPath("resp_1"), s.donePath("resp_1")},
		turns.EventsFile:  {filepath.Join(dir, turns.EventsFile)},
		turns.RuntimeFile: {filepath.Join(dir, turns.RuntimeFile)},
		turns.RecordFile:  {filepath.Join(dir, turns.RecordFile)},
	}
}

// After a power cut the files of a turn may be gone, or hold zeros, although
// a reader saw the turn end. The journal brings them back.
func TestPowerCutAfterTheEnd(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"gone":       os.Remove,
		"empty":      func(path string) error { return os.Truncate(path, 0) },
		"zeros":      func(path string) error { return os.WriteFile(path, make([]byte, 1000), 0o600) },
		"untouched":  func(string) error { return nil },
		"half there": func(path string) error { return os.Truncate(path, 100) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openBooted(t, filepath.Join(dir, "state"), 1)
			turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
			play(t, turn, em, scope)
			must(t, turn.Commit(em.Response(), Totals{Rounds: 2}, scope.TurnCompleted(turns.Completed{})), turn.Close())
			kill(t, s)
			all := pathsOf(s, turn.Dir)
			want := all.read(t)
			for _, places := range all {
				for _, place := range places {
					if err := damage(place); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			s = openBooted(t, s.dir, 2)
			_, err := s.Settle(now)
			must(t, err)
			got := all.read(t)
			for file := range all {
				if want := want[file]; !strings.HasPrefix(got[file], want) || want == "" {
					t.Errorf("%s is\n%s\nwant\n%s", file, got[file], want)
				}
			}
			if name != "zeros" { // which replay overwrites but does not cut
				checkStream(t, turn.Dir)
			}
			if items, _, err := s.Chain("resp_1"); err != nil || len(items) != 6 {
				t.Errorf("the chain has %d items, %v", len(items), err)
			}
			if segments, _ := os.ReadDir(s.journal.dir); len(segments) != 0 {
				t.Errorf("the journal is kept: %v", segments)
			}
		})
	}
}

// The power is cut after each write to the journal, with nothing else on disk.
func TestPowerCutAtEveryFrame(t *testing.T) {
	dir := t.TempDir()
	s := openBooted(t, filepath.Join(dir, "state"), 1)
	turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
	play(t, turn, em, scope)
	must(t, turn.Commit(em.Response(), Totals{}, scope.TurnCompleted(turns.Completed{})), turn.Close())
	kill(t, s)
	segment, err := os.ReadFile(s.journal.current.path)
	must(t, err)
	_, _, frames, err := decodeSegment(segment)
	must(t, err)
	if len(frames) < 6 {
		t.Fatalf("only %d frames", len(frames))
	}
	for n := range len(frames) + 1 {
		for _, torn := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d frames, torn %v", n, torn), func(t *testing.T) {
				must(t, os.RemoveAll(s.dir), os.RemoveAll(turn.Dir), os.MkdirAll(s.journal.dir, 0o700))
				cut := appendSegmentHeader(nil, 7, boot(1))
				for _, f := range frames[:n] {
					cut = f.append(cut, 7)
				}
				if torn && n < len(frames) {
					next := frames[n].append(nil, 7)
					cut = append(cut, next[:len(next)-1]...)
					cut = append(cut, 0)
				}
				must(t, os.WriteFile(filepath.Join(s.journal.dir, "0000000000000007.journal"), cut, 0o600))
				s := openBooted(t, s.dir, 2)
				defer s.lock.Close()
				settled, err := s.Settle(now)
				must(t, err)
				// The first frame is the id of the installation, the second the header.
				if n > 0 && s.RuntimeID() != scope.RuntimeID {
					t.Errorf("the installation is now %s, not %s", s.RuntimeID(), scope.RuntimeID)
				}
				if len(settled) != min(max(n-1, 0), 1) {
					t.Fatalf("settled %v", settled)
				}
				if len(settled) == 0 {
					return
				}
				checkStream(t, turn.Dir)
				rec, err := ReadRecord(turn.Dir)
				if err != nil || !rec.Status.Terminal() {
					t.Errorf("the record is %+v, %v", rec, err)
				}
				if whole := rec.Status == responses.StatusCompleted; whole != (n == len(frames)) &&
					whole != (n >= len(frames)-2) {
					t.Errorf("with %d of %d frames the turn is %s", n, len(frames), rec.Status)
				}
				checkFacts(t, turn.Dir, rec)
			})
		}
	}
}

// After a kill nothing is replayed: the files are as the kernel has them, also
// where the caller removed them since.
func TestAKillReplaysNothing(t *testing.T) {
	dir := t.TempDir()
	s := openBooted(t, filepath.Join(dir, "state"), 1)
	turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
	play(t, turn, em, scope)
	must(t, turn.Commit(em.Response(), Totals{}, scope.TurnCompleted(turns.Completed{})), turn.Close())
	kill(t, s)
	must(t, os.RemoveAll(turn.Dir))
	s = openBooted(t, s.dir, 1)
	if _, err := os.Lstat(turn.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the turn's directory is back: %v", err)
	}
	must(t, s.checkpoint()) // which does not mind
	if segments, _ := os.ReadDir(s.journal.dir); len(segments) != 0 {
		t.Errorf("the journal is kept: %v", segments)
	}
}

// A removed file stays removed, also when the power is cut right after.
func TestAPowerCutBringsNothingBack(t *testing.T) {
	dir := t.TempDir()
	s := openBooted(t, filepath.Join(dir, "state"), 1)
	put(t, s, "deleted", "")
	put(t, s, "swept", "")
	discarded, err := s.begin(header("discarded", ""), nil, nil)
	must(t, err, discarded.Sync(), discarded.Discard())
	must(t, s.Delete("deleted"))
	sweep(t, s, Retention{MaxCount: 1}, now())
	must(t, s.Delete("swept"))
	sweep(t, s, Retention{}, now())
	put(t, s, "stays", "") // and syncs the note of what was discarded
	kill(t, s)
	s = openBooted(t, s.dir, 2)
	if settled, err := s.Settle(now); len(settled) != 0 || err != nil {
		t.Errorf("settled %v, %v", settled, err)
	}
	if got := files(t, s); got != "stays" {
		t.Errorf("stored are %s", got)
	}
}

func TestAReplayWritesOnlyFilesOfTurns(t *testing.T) {
	dir := t.TempDir()
	s := openBooted(t, filepath.Join(dir, "state"), 1)
	victim := filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("mine"), 0o600), os.Mkdir(filepath.Join(dir, "turn"), 0o700),
		os.Symlink(victim, filepath.Join(dir, "turn", turns.EventsFile)))
	before := tree(t, dir)
	for _, path := range []string{victim, "turn.json", dir + "/x/../turn.json", filepath.Join(s.dir, "lock"),
		filepath.Join(s.dir, "open", "..ndjson"), filepath.Join(dir, "turn") + "\x00/" + turns.RecordFile} {
		for _, kind := range []frameKind{frameWrite, frameReplace, 'q'} {
			must(t, s.replay([]frame{{kind: kind, path: path, data: []byte("theirs")}}))
		}
	}
	if err := s.replay([]frame{{kind: frameWrite, path: filepath.Join(dir, "turn", turns.EventsFile),
		data: []byte("theirs")}}); err == nil {
		t.Error("a link was followed")
	}
	if err := s.replay([]frame{{kind: frameWrite, path: s.openPath("x"), offset: -1}}); err == nil {
		t.Error("a negative offset was taken")
	}
	if data, err := os.ReadFile(victim); string(data) != "mine" || err != nil {
		t.Errorf("the victim holds %q, %v", data, err)
	}
	if after := tree(t, dir); len(after) != len(before) {
		t.Errorf("before %v, after %v", before, after)
	}
}

func TestCommitsShareAndNoneIsLost(t *testing.T) {
	s := openBooted(t, t.TempDir(), 1)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			for i := range 20 {
				data := bytes.Repeat([]byte{byte(i)}, 50_000)
				if err := s.journal.commit(frame{kind: frameWrite, path: s.openPath(fmt.Sprint(w)), offset: int64(i),
					data: data}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	kill(t, s)
	again := newJournal(s.journal.dir, boot(2))
	segments, frames, err := again.load()
	must(t, err)
	next := make(map[string]int64)
	for _, f := range frames {
		switch {
		case f.path == s.lockPath():
			continue
		case f.offset != next[f.path]:
			t.Fatalf("%+v: f.offset = %d, want %d", f, f.offset, next[f.path])
		case len(f.data) != 50_000:
			t.Fatalf("%+v: len(f.data) = %d (%q), want 50_000", f, len(f.data), f.data)
		case f.data[0] != byte(f.offset):
			t.Fatalf("%+v: f.data[0] = %d, want %d", f, f.data[0], byte(f.offset))
		}
		next[f.path]++
	}
	if len(frames) != 1+16*20 || len(segments) != 1 {
		t.Errorf("%d frames in %d segments", len(frames), len(segments))
	}
}

func TestAJournalThatFails(t *testing.T) {
	s := openBooted(t, t.TempDir(), 1)
	must(t, s.journal.commit(frame{kind: frameWrite, path: s.openPath("a"), data: []byte("1")}))
	must(t, s.journal.current.file.Close()) // the disk is gone
	if err := s.journal.commit(frame{kind: frameWrite, path: s.openPath("a"), data: []byte("2")}); !errors.Is(err,
		os.ErrClosed) {
		t.Errorf("commit: %v", err)
	}
	must(t, s.journal.commit(frame{kind: frameWrite, path: s.openPath("a"), data: []byte("3")})) // elsewhere it goes on
}

func FuzzDecodeSegment(f *testing.F) {
	valid := appendSegmentHeader(nil, 3, boot(1))
	valid = frame{kind: frameWrite, path: "/a/turn.json", offset: 4, data: []byte("data")}.append(valid, 3)
	valid = frame{kind: frameRelease, path: "/a"}.append(valid, 3)
	f.Add(valid)
	f.Add(append(valid, make([]byte, 100)...))
	f.Add(valid[:segmentHead+5])
	f.Add([]byte(segmentMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		number, run, frames, err := decodeSegment(data)
		if err != nil {
			return
		}
		again := appendSegmentHeader(nil, number, run)
		for _, f := range frames {
			again = f.append(again, number)
		}
		if !bytes.HasPrefix(data[segmentHead:], again[segmentHead:]) {
			t.Error("the frames are not what the segment holds")
		}
	})
}

// A segment of many files is settled too: by their file systems, or one by one
// where that fails, and whatever became of the files and their folders.
func TestASegmentOfManyFilesIsSettled(t *testing.T) {
	dir := t.TempDir()
	s := openBooted(t, filepath.Join(dir, "state"), 1)
	for i := range 2 * manyFiles {
		turn := filepath.Join(dir, fmt.Sprint(i))
		path := filepath.Join(turn, turns.EventsFile)
		must(t, os.Mkdir(turn, 0o700), os.WriteFile(path, []byte("a\n"), 0o600),
			s.journal.commit(frame{kind: frameWrite, path: path, data: []byte("a\n")}))
		switch i % 4 {
		case 1:
			must(t, os.Remove(path))
		case 2:
			must(t, os.RemoveAll(turn))
		case 3:
			must(t, os.RemoveAll(turn), os.Symlink(os.DevNull, turn)) // a folder that cannot be opened as one
		}
	}
	must(t, s.checkpoint())
	if left, err := os.ReadDir(s.journal.dir); len(left) > 0 || err != nil {
		t.Errorf("%d segments are left (%v)", len(left), err)
	}
}
