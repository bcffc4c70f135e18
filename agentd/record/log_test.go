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

	"holon/test/memory"
)

func TestMain(m *testing.M) {
	memory.Use()
	goleak.VerifyTestMain(m)
}

func newLog(t *testing.T) *Log {
	t.Helper()
	l, err := createLog(filepath.Join(t.TempDir(), "log"), synced, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func add(t *testing.T, l *Log, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := l.Append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
}

// rest reads a log to its end.
func rest(ctx context.Context, f *Follower) (string, error) {
	var out bytes.Buffer
	for {
		lines, err := f.Next(ctx)
		if err != nil {
			return out.String(), err
		}
		out.Write(lines)
	}
}

func TestFollowersSeeEverythingInOrder(t *testing.T) {
	l := newLog(t)
	const lines = 2000
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, `{"n":%d}`+"\n", i)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if got, err := rest(t.Context(), l.Follow()); got != want.String() || !errors.Is(err, io.EOF) {
				t.Errorf("a follower saw %d bytes of %d, then %v", len(got), want.Len(), err)
			}
		})
	}
	for i := range lines {
		add(t, l, fmt.Sprintf(`{"n":%d}`, i))
	}
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	// who comes late sees the same
	if got, err := rest(t.Context(), l.Follow()); got != want.String() || !errors.Is(err, io.EOF) {
		t.Errorf("a late follower saw %d bytes, then %v", len(got), err)
	}
	if err := l.Append([]byte("x")); !errors.Is(err, errLogClosed) {
		t.Errorf("append after the end: %v", err)
	}
}

func TestAFollowerWaitsUntilItsContextEnds(t *testing.T) {
	l := newLog(t)
	reason := errors.New("the reader left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if lines, err := l.Follow().Next(ctx); err != reason {
		t.Errorf("%q, %v", lines, err)
	}
	add(t, l, "a")
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	f := l.Follow()
	if lines, err := f.Next(ctx); string(lines) != "a\n" || err != nil { // what is there comes first
		t.Errorf("%q, %v", lines, err)
	}
	if !f.Waiting() {
		t.Error("the follower has something to read")
	}
}

func TestHeldLinesAreOnDiskAndInvisible(t *testing.T) {
	l := newLog(t)
	add(t, l, "a")
	l.Hold()
	add(t, l, "b", "c")
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(l.file.Name()); string(data) != "a\nb\nc\n" {
		t.Errorf("the disk has %q (%v)", data, err)
	}
	f := l.Follow()
	if lines, err := f.Next(t.Context()); string(lines) != "a\n" || !f.Waiting() {
		t.Errorf("visible is %q (%v)", lines, err)
	}
	l.Release()
	if lines, err := f.Next(t.Context()); string(lines) != "b\nc\n" {
		t.Errorf("released is %q (%v)", lines, err)
	}
}

func TestAbortDropsWhatIsHeld(t *testing.T) {
	l := newLog(t)
	add(t, l, "a")
	l.Hold()
	add(t, l, "b")
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no room")
	l.Abort(cause)
	l.Abort(errors.New("another"))
	if got, err := rest(t.Context(), l.Follow()); got != "a\n" || err != cause {
		t.Errorf("a follower saw %q, then %v", got, err)
	}
	if data, err := os.ReadFile(l.file.Name()); string(data) != "a\n" {
		t.Errorf("the disk has %q (%v)", data, err)
	}
	if err := l.Append([]byte("c")); err != cause {
		t.Errorf("append: %v", err)
	}
}

func TestGroupCommitLosesNothing(t *testing.T) {
	l := newLog(t)
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for i := range 50 {
				if err := l.Append([]byte(fmt.Sprintf("%d.%d", w, i))); err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					if err := l.Flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	next := make(map[string]int)
	err := l.Lines(func(line []byte) error {
		w, i, _ := strings.Cut(string(line), ".")
		if fmt.Sprint(next[w]) != i {
			t.Errorf("of writer %s came %s, want %d", w, i, next[w])
		}
		next[w]++
		return nil
	})
	if err != nil || len(next) != 8 || next["7"] != 50 {
		t.Errorf("%v, %v", next, err)
	}
}

// A reader that never comes back costs the writer nothing but the file.
func TestASlowReaderHoldsNobodyUp(t *testing.T) {
	l := newLog(t)
	f := l.Follow()
	line := strings.Repeat("x", 1<<20)
	for range 3 * maxPending >> 20 { // more than may wait for the disk
		add(t, l, line)
	}
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	if got, err := rest(t.Context(), f); len(got) != (3*maxPending>>20)*(len(line)+1) || !errors.Is(err, io.EOF) {
		t.Errorf("it saw %d bytes, then %v", len(got), err)
	}
}

func TestHugeLines(t *testing.T) {
	l := newLog(t)
	huge := strings.Repeat("h", 20<<20)
	add(t, l, "a", huge, "b")
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	if err := l.Lines(func(line []byte) error { sizes = append(sizes, len(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(sizes) != fmt.Sprint([]int{1, len(huge), 1}) {
		t.Errorf("the lines have %v bytes", sizes)
	}
}

func TestTornTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for content, want := range map[string]string{
		"": "", "a": "", "a\n": "a\n", "a\nb": "a\n", "a\n\nb\nc": "a\n\nb\n",
		"a\n" + strings.Repeat("x", 200<<10): "a\n", // longer than one step backwards
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		ro, err := OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rest(t.Context(), ro.Follow()); got != want || !errors.Is(err, io.EOF) {
			t.Errorf("%.20q reads as %q, %v", content, got, err)
		}
		l, err := reopenLog(path)
		if err = errors.Join(err, ro.Close()); err != nil {
			t.Fatal(err)
		}
		add(t, l, "z")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); string(data) != want+"z\n" {
			t.Errorf("%.20q continues as %q (%v)", content, data, err)
		}
	}
}

// Commands of the turn can put anything where a log was.
func TestNoSpecialFileIsOpened(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	link, pipe, folder := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "folder")
	if err := errors.Join(os.WriteFile(secret, []byte("x\n"), 0o600), os.Symlink(secret, link),
		syscall.Mkfifo(pipe, 0o600), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, pipe, folder} {
		done := make(chan error, 2)
		go func() {
			for _, open := range []func(string) (*Log, error){OpenLog, reopenLog} {
				l, err := open(path)
				if err == nil {
					err = l.Close()
					done <- errors.Join(errors.New("it was opened"), err)
					continue
				}
				done <- nil
			}
		}()
		for range 2 {
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("%s: %v", filepath.Base(path), err)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%s blocks", filepath.Base(path))
			}
		}
	}
}

func TestDiskErrorReachesEverybody(t *testing.T) {
	l := newLog(t)
	add(t, l, "a")
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	f := l.Follow()
	if err := l.file.Close(); err != nil { // the disk is gone
		t.Fatal(err)
	}
	add(t, l, "b")
	if err := l.Flush(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	if err := l.Append([]byte("c")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	f.off = 2 // it had seen the first line
	if _, err := f.Next(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("follow: %v", err)
	}
}

func TestAPlannedLogKeepsItsLinesForItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := planLog(path, written, nil)
	add(t, l, "a")
	f := l.Follow()
	if !f.Waiting() {
		t.Error("there is something to read before there is a file")
	}
	if err := l.create(); err != nil {
		t.Fatal(err)
	}
	add(t, l, "b")
	if data, err := os.ReadFile(path); string(data) != "a\nb\n" { // with the kernel when Append returns
		t.Errorf("the file has %q (%v)", data, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	never := planLog(filepath.Join(t.TempDir(), "never"), written, nil)
	add(t, never, "a")
	never.Abort(errLogClosed)
	if err := never.release(); err != nil {
		t.Error(err)
	}
}

// A log takes lines that are larger than what may wait, also when their sync is
// somebody else's.
func TestPostponedLinesMayBeMany(t *testing.T) {
	l := newLog(t)
	l.postpone()
	big := strings.Repeat("x", maxPending+1)
	add(t, l, big, big, "a")
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(l.path); err != nil || info.Size() != int64(2*len(big)+2+2) {
		t.Errorf("%v, %v", info, err)
	}
}

// TestUnreadLinesAreNotSynced: without a reader, lines are with the kernel, where a kill leaves them, and not on disk
// before a reader or the end of the log needs them there. The first reader finds all of them.
func TestUnreadLinesAreNotSynced(t *testing.T) {
	ask := map[string]func(*Log) error{
		"followed": func(l *Log) error { l.Follow(); return nil },
		"flushed":  (*Log).Flush,
		"ended":    (*Log).End,
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			add(t, l, "a")
			add(t, l, "b")
			l.mu.Lock()
			for l.written < 4 {
				l.work.Wait() // for the writer
			}
			l.mu.Unlock()
			if data, err := os.ReadFile(l.path); err != nil || string(data) != "a\nb\n" {
				t.Errorf("before: the file holds %q, %v; want both lines", data, err)
			}
			if l.synced != 0 || l.visible != 0 {
				t.Errorf("before: %d bytes are synced and %d visible, want none", l.synced, l.visible)
			}
			if err := ask(l); err != nil {
				t.Fatal(err)
			}
			if l.synced != 4 || l.visible != 4 {
				t.Errorf("after: %d bytes are synced and %d visible, want 4", l.synced, l.visible)
			}
		})
	}
}
