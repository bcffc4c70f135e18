package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/responses/turns"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) {
	memory.Use()
	goleak.VerifyTestMain(m)
}

func startJournal(t *testing.T) (j *Journal, dir string) {
	t.Helper()
	dir = t.TempDir()
	j, err := createJournal(dir)
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j, dir
}

func add(t *testing.T, j *Journal, values ...string) {
	t.Helper()
	for _, v := range values {
		must(t, j.append(turns.EntryStream, []byte(v)))
	}
}

// rest reads the values of a journal to its end.
func rest(ctx context.Context, f *Follower) (string, error) {
	var out []byte
	for {
		lines, err := f.Next(ctx)
		if err != nil {
			return string(out), err
		}
		out = AppendStream(out, lines)
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	must(t, err)
	return string(data)
}

func TestFollowersSeeEverythingInOrder(t *testing.T) {
	j, _ := startJournal(t)
	const lines = 2000
	var want strings.Builder
	var readers sync.WaitGroup
	for i := range lines {
		fmt.Fprintf(&want, "%d\n", i)
	}
	for range 3 {
		readers.Go(func() {
			if got, err := rest(t.Context(), j.Follow()); got != want.String() || !errors.Is(err, io.EOF) {
				t.Errorf("a reader got %d bytes of %d, then %v", len(got), want.Len(), err)
			}
		})
	}
	for i := range lines {
		must(t, j.append(turns.EntryStream, fmt.Append(nil, i)))
	}
	j.end()
	readers.Wait()
	if got, err := rest(t.Context(), j.Follow()); got != want.String() || !errors.Is(err, io.EOF) {
		t.Errorf("a late reader got %d bytes, then %v", len(got), err)
	}
	expect.ErrorIs(t, "append after the end", j.append(turns.EntryStream, []byte("0")), errEnded)
}

// Both kinds have one sequence, and each a file of its own.
func TestKindsOfEntries(t *testing.T) {
	j, dir := startJournal(t)
	var writers sync.WaitGroup
	for _, key := range []string{turns.EntryStream, turns.EntryRuntime} {
		writers.Go(func() {
			for i := range 100 {
				if err := j.append(key, fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	values := make(map[string]string)
	seq := int64(0)
	must(t, j.Lines(func(line []byte) error {
		n, key, value, ok := turns.CutEntry(line)
		if seq++; !ok || n != seq {
			t.Errorf("line %d is %s", seq, line)
		}
		values[key] += string(value) + "\n"
		return nil
	}))
	if seq != 200 {
		t.Errorf("the journal has %d lines", seq)
	}
	for key, name := range kindFiles {
		if got := read(t, dir, name); got != values[key] || got == "" {
			t.Errorf("%s has %d bytes, the journal %d", name, len(got), len(values[key]))
		}
	}
	whole, twice := len(read(t, dir, turns.JournalFile)), len(values[turns.EntryStream])+len(values[turns.EntryRuntime])
	if size, copied := j.written(); size != int64(whole) || copied != int64(twice) {
		t.Errorf("written are %d bytes, %d of them twice, want %d and %d", size, copied, whole, twice)
	}
}

func TestAFollowerWaitsUntilItsContextEnds(t *testing.T) {
	j, _ := startJournal(t)
	reason := errors.New("the reader left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if lines, err := j.Follow().Next(ctx); err != reason {
		t.Errorf("%q, %v", lines, err)
	}
	add(t, j, "0")
	f := j.Follow()
	if lines, err := f.Next(ctx); len(lines) == 0 || err != nil { // what is there comes first
		t.Errorf("%q, %v", lines, err)
	}
	if !f.Waiting() {
		t.Error("the follower has something to read")
	}
}

func TestHeldLinesAreWrittenAndInvisible(t *testing.T) {
	j, dir := startJournal(t)
	add(t, j, "0")
	j.hold()
	add(t, j, "1", "2")
	must(t, j.sync())
	expect.Equal(t, "the file", read(t, dir, turns.EventsFile), "0\n1\n2\n")
	f := j.Follow()
	if lines, err := f.Next(t.Context()); string(AppendStream(nil, lines)) != "0\n" || !f.Waiting() {
		t.Errorf("visible is %q (%v)", lines, err)
	}
	j.release()
	if lines, err := f.Next(t.Context()); string(AppendStream(nil, lines)) != "1\n2\n" {
		t.Errorf("released is %q (%v)", lines, err)
	}
}

func TestAbortDropsWhatIsHeld(t *testing.T) {
	j, dir := startJournal(t)
	add(t, j, "0")
	j.hold()
	add(t, j, "1")
	cause := errors.New("no room")
	j.abort(cause)
	j.abort(errors.New("another"))
	if got, err := rest(t.Context(), j.Follow()); got != "0\n" || err != cause {
		t.Errorf("a follower saw %q, then %v", got, err)
	}
	expect.Equal(t, "the file", read(t, dir, turns.JournalFile), `{"seq":1,"stream":0}`+"\n")
	if err := j.append(turns.EntryStream, []byte("2")); err != cause {
		t.Errorf("append: %v", err)
	}
}

func TestHugeLines(t *testing.T) {
	j, _ := startJournal(t)
	huge := strings.Repeat("9", 20<<20)
	add(t, j, "0", huge, "1")
	var sizes []int
	must(t, j.Lines(func(line []byte) error {
		_, _, value, _ := turns.CutEntry(line)
		sizes = append(sizes, len(value))
		return nil
	}))
	if fmt.Sprint(sizes) != fmt.Sprint([]int{1, len(huge), 1}) {
		t.Errorf("the values have %v bytes", sizes)
	}
}

func TestTornTail(t *testing.T) {
	const first = `{"seq":1,"stream":0}` + "\n"
	for content, want := range map[string]string{
		"": "", "a": "", first: "0\n", first + `{"seq":2`: "0\n",
		first + strings.Repeat("x", 200<<10): "0\n", // longer than one step backwards
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, turns.JournalFile)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		ro, err := OpenJournal(dir)
		must(t, err)
		if got, err := rest(t.Context(), ro.Follow()); got != want || !errors.Is(err, io.EOF) {
			t.Errorf("%.20q reads as %q, %v", content, got, err)
		}
		j, err := reopenJournal(dir)
		must(t, err, ro.Close())
		add(t, j, "7")
		must(t, j.restore(dir), j.Close())
		if got := read(t, dir, turns.EventsFile); got != want+"7\n" {
			t.Errorf("%.20q continues as %q", content, got)
		}
	}
}

// Commands of the turn can put anything where the journal was.
func TestNoSpecialFileIsOpened(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"link":   func(path string) error { return os.Symlink("/etc/passwd", path) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		must(t, put(filepath.Join(dir, turns.JournalFile)))
		for _, open := range []func(string) (*Journal, error){OpenJournal, reopenJournal} {
			done := make(chan error, 1)
			go func() {
				_, err := open(dir)
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Errorf("a %s was opened", name)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("a %s blocks", name)
			}
		}
	}
}

func TestDiskErrorReachesEverybody(t *testing.T) {
	j, _ := startJournal(t)
	add(t, j, "0")
	f := j.Follow()
	_, err := f.Next(t.Context())
	must(t, err, j.file.Close())                      // the disk is gone
	must(t, j.append(turns.EntryStream, []byte("1"))) // it waits for a fact or a follower
	for _, key := range []string{turns.EntryRuntime, turns.EntryStream} {
		expect.ErrorIs(t, "append", j.append(key, []byte("2")), os.ErrClosed)
	}
	if _, err := f.Next(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("follow: %v", err)
	}
}

// A power cut leaves of each file of a turn what was synced, and any part of what came after.
func TestPowerCutAfterTheEnd(t *testing.T) {
	for _, name := range []string{turns.EventsFile, turns.RuntimeFile, turns.FailureFile} {
		for damage, by := range map[string]func(path string) error{
			"gone": os.Remove, "empty": func(path string) error { return os.Truncate(path, 0) },
		} {
			dir := t.TempDir()
			s := newStore(t, dir)
			turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
			play(t, turn, em, scope)
			must(t, turn.Commit(em.Response(), turns.Totals{Rounds: 2}, scope.Event(turns.TurnCompleted, turns.Completed{})),
				turn.Close())
			path := filepath.Join(turn.Dir, name)
			want, _ := os.ReadFile(path)
			if err := by(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			must(t, os.Rename(s.donePath("resp_1"), s.openPath("resp_1"))) // the commit is a rename, which is not synced
			settled, err := settleAll(s)
			if must(t, err); len(settled) != 1 {
				t.Errorf("settled %v", settled)
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
				t.Errorf("%s %s becomes\n%s\nwant\n%s", name, damage, got, want)
			}
			if rec, err := ReadRecord(turn.Dir); err != nil || rec.Rounds != 2 {
				t.Errorf("the record is %+v, %v", rec, err)
			}
		}
	}
}

// Deltas do not wake a sparse follower; they come with what follows them, and before the end.
func TestSparseFollower(t *testing.T) {
	j, err := createJournal(t.TempDir())
	expect.NoError(t, err)
	f := j.FollowSparse()
	put := func(key, value string) { expect.NoError(t, j.append(key, []byte(value))) }
	next := func(lines int) {
		t.Helper()
		if f.Waiting() {
			t.Fatal("it waits")
		}
		got := 0
		for got < lines && !f.Waiting() {
			chunk, err := f.Next(t.Context())
			expect.NoError(t, err)
			got += bytes.Count(chunk, []byte{'\n'})
		}
		expect.Equal(t, "lines", got, lines)
	}
	const delta = `{"type":"response.output_text.delta","delta":"x"}`
	for range 2 {
		put(turns.EntryStream, delta)
		put(turns.EntryStream, delta)
		if !f.Waiting() {
			t.Error("a delta is there for a sparse follower")
		}
		if at := j.Follow(); at.Waiting() {
			t.Error("a delta is not there for another")
		}
		put(turns.EntryStream, `{"type":"response.output_text.done","text":"xx"}`)
		next(3)
	}
	j.hold()
	put(turns.EntryRuntime, `{"type":"turn.completed"}`)
	if !f.Waiting() {
		t.Error("what is held is there")
	}
	j.release()
	next(1)
	put(turns.EntryStream, delta)
	j.end()
	next(1)
	if _, err := f.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	expect.NoError(t, j.Close())
}
