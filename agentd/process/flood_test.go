package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"holon/test/expect"
)

// Commands that share a budget write no more than it allows between them, count
// on, and say why the file ends.
func TestBudget(t *testing.T) {
	s := newTest(t)
	state := NewBudget(1<<20, nil)
	turn := NewBudget(300_000, state)
	dir := t.TempDir()
	var wg sync.WaitGroup
	results := make([]Result, 8)
	for i := range results {
		c := sh("head -c 100000 /dev/zero")
		c.StdoutPath, c.Budget = filepath.Join(dir, fmt.Sprint(i)), turn
		wg.Go(func() {
			var err error
			if results[i], err = s.run(c); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var logged, onDisk int64
	for i, res := range results {
		logged += res.Stdout.Logged
		if fi, err := os.Stat(filepath.Join(dir, fmt.Sprint(i))); err == nil {
			onDisk += fi.Size()
		}
		short := res.Stdout.Logged < res.Stdout.Total
		expect.Equal(t, fmt.Sprintf("%d: res.Stdout.Total", i), res.Stdout.Total, 100_000)
		expect.Equal(t, fmt.Sprintf("%d: res.Stdout.OverBudget", i), res.Stdout.OverBudget, short)
		expect.Equal(t, fmt.Sprintf("%d: res.Stdout.LogErr", i), res.Stdout.LogErr, nil)
	}
	expect.Equal(t, "logged", logged, 300_000)
	expect.Equal(t, "onDisk", onDisk, logged)
	expect.Equal(t, "turn.Left()", turn.Left(), 0)
	expect.Equal(t, "state.Left()", state.Left(), 1<<20-300_000)
	turn.Give(1000)
	expect.Equal(t, "turn.Left()", turn.Left(), 1000)
	expect.Equal(t, "state.Left()", state.Left(), 1<<20-299_000)
	expect.Equal(t, "turn.Take(5000)", turn.Take(5000), 1000)
	wide := NewBudget(1<<40, NewBudget(10, nil))
	got := wide.Take(100)
	expect.Equal(t, "wide.Take(100)", got, 10)
	expect.Equal(t, "wide.Left()", wide.Left(), 0)
	expect.Equal(t, "wide.left.Load()", wide.left.Load(), 1<<40-10)
	if NewBudget(-1, nil).Take(1) != 0 || NewBudget(5, nil).Take(-1) != 0 {
		t.Error("less than nothing was taken")
	}
}

// Recount sets a budget by what is in use, also while bytes are taken.
func TestRecount(t *testing.T) {
	b := NewBudget(100, nil)
	b.Take(30)
	tests := []struct {
		bytes, used, taken, left int64
		err                      error
	}{
		{100, 30, 0, 70, nil},
		{100, 10, 0, 90, nil},  // files were removed
		{100, 10, 20, 70, nil}, // twenty bytes that the count may have missed
		{100, 95, 0, 5, nil},
		{100, 95, 4, 1, nil},
		{100, 400, 0, 0, nil}, // there is more than there may be
		{100, 1, 0, 0, errors.New("nothing was counted")},
		{100, 60, 0, 40, nil},
		{50, 60, 0, 0, nil},
	}
	for i, tt := range tests {
		err := b.Recount(tt.bytes, func() (int64, error) {
			expect.Equal(t, fmt.Sprintf("%d: took", i), b.Take(tt.taken), tt.taken)
			return tt.used, tt.err
		})
		if !errors.Is(err, tt.err) {
			t.Errorf("%d: err = %v, want %v", i, err, tt.err)
		}
		expect.Equal(t, fmt.Sprintf("%d: b.Left()", i), b.Left(), tt.left)
		expect.Equal(t, fmt.Sprintf("%d: b.Take(1)", i), b.Take(1), min(tt.left, 1))
	}
}

// A file that cannot be written costs no budget.
func TestBudgetIsGivenBack(t *testing.T) {
	b := NewBudget(100, nil)
	c := capture{keep: 10, path: filepath.Join(t.TempDir(), "none", "none", "out"), limit: 1000, budget: b}
	c.Write([]byte("hello"))
	switch got := c.result(); {
	case b.Left() != 100:
		t.Errorf("b.Left() = %d, want 100", b.Left())
	case got.LogErr == nil:
		t.Error("got.LogErr = nil, want a value")
	case got.OverBudget:
		t.Error("got.OverBudget = true, want false")
	}
}

// Bytes that are no text, one endless line and a stream closed early arrive as
// they are.
func TestRawBytes(t *testing.T) {
	tests := map[string]struct {
		script string
		total  int64
		prefix string
	}{
		"nothing":       {":", 0, ""},
		"NULs":          {`head -c 1000 /dev/zero`, 1000, "\x00\x00"},
		"invalid UTF-8": {`printf '\377\376\303('; printf '\303'`, 5, "\xff\xfe\xc3(\xc3"},
		"one line":      {"head -c 33554432 /dev/zero | tr '\\0' x", 32 << 20, "xxx"},
		"closed early":  {"echo a; exec >&- 2>&-; (sleep 0.05); exit 0", 2, "a\n"},
	}
	s := newTest(t)
	for name, tt := range tests {
		c := sh(tt.script)
		c.StdoutPath = filepath.Join(t.TempDir(), "out")
		out := run(t, s, c).Stdout
		switch {
		case out.Total != tt.total:
			t.Errorf("%s: out.Total = %d, want %d", name, out.Total, tt.total)
		case !strings.HasPrefix(string(out.Head), tt.prefix):
			t.Errorf("%s: string(out.Head) = %q, want it to begin with %q", name, string(out.Head), tt.prefix)
		}
		expect.Equal(t, fmt.Sprintf("%s: out.Logged", name), out.Logged, tt.total)
		if data, err := os.ReadFile(c.StdoutPath); tt.total > 0 &&
			(err != nil || !bytes.HasPrefix(data, []byte(tt.prefix))) {
			t.Errorf("%s: the file begins %.20q, %v", name, data, err)
		}
	}
}

// A hundred commands that wait cost little memory and no thread each.
func TestManyAtOnce(t *testing.T) {
	s := newTest(t)
	const n = 100
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	threads := len(dirNames(t, "/proc/self/task"))
	var all []*Process
	for range n {
		c := sh("echo up; read line; echo $line; exit 5")
		c.Input = true
		all = append(all, start(t, s, c))
	}
	for _, p := range all {
		awaitOutput(t, p, "up")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	heap := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	more := len(dirNames(t, "/proc/self/task")) - threads
	t.Logf("%d commands: %d KiB of memory, %d threads more", n, heap>>10, more)
	if heap > 8<<20 {
		t.Errorf("%d commands cost %d bytes", n, heap)
	}
	if more > 40 {
		t.Errorf("%d commands cost %d threads", n, more)
	}
	for _, p := range all {
		write(t, p, "bye\n")
	}
	for _, p := range all {
		if res := p.Result(); res.ExitCode != 5 || string(res.Stdout.Head) != "up\nbye\n" {
			t.Errorf("exit code %d, %q", res.ExitCode, res.Stdout.Head)
		}
	}
}

func dirNames(t *testing.T, path string) []string {
	t.Helper()
	d, err := os.Open(path)
	expect.NoError(t, err)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	expect.NoError(t, err)
	return names
}

// The threads that a fork bomb would leave no room for are there before it.
func TestThreadsAreReserved(t *testing.T) {
	s := newTest(t)
	run(t, s, sh("true"))
	if n := len(dirNames(t, "/proc/self/task")); n < spareThreads {
		t.Errorf("%d threads, want at least %d", n, spareThreads)
	}
}

// The directory of a log comes with its first byte, whichever stream is first.
func TestDirectoryOfALogIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "call")
	out, errs := capture{keep: 10, path: filepath.Join(dir, "out"), limit: 1000},
		capture{keep: 10, path: filepath.Join(dir, "err"), limit: 1000}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the directory was made before there was a byte")
	}
	for _, c := range []*capture{&out, &errs} {
		c.Write([]byte("hello"))
		c.close()
		if got := c.result(); got.LogErr != nil || got.Logged != 5 {
			t.Errorf("%+v", got)
		}
	}
}
