package uidpool

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"holon/state"
	"holon/test/expect"
)

func TestTake(t *testing.T) {
	p := Pool{Dir: filepath.Join(t.TempDir(), "uids"), First: 5000, Count: 3}
	holders := t.TempDir()
	hold := func(name string) string {
		path := filepath.Join(holders, name)
		expect.NoError(t, os.Mkdir(path, 0o700))
		return path
	}
	take := func(wish uint32, holder string, want int) {
		t.Helper()
		if got, err := p.takeFrom(wish, holder); err != nil || got != want {
			t.Errorf("takeFrom(%d) = %d, %v, want %d", wish, got, err, want)
		}
	}
	a, b, c := hold("a"), hold("b"), hold("c")
	take(1<<32-1, a, 5000) // 2^32-1 is a multiple of 3
	take(2, b, 5002)
	take(2, c, 5001) // the next that is free, from the start again
	if _, err := p.takeFrom(0, hold("d")); !state.IsCode(err, codeExhausted) {
		t.Errorf("Take from a pool in use: %v, want %s", err, codeExhausted)
	}
	expect.NoError(t, os.Remove(b))
	take(1, hold("e"), 5002)
}

// A directory that belongs to a number of the pool gets that number again, and a name always the same.
func TestTakeAgain(t *testing.T) {
	dir := t.TempDir()
	owner := os.Geteuid()
	p := Pool{Dir: filepath.Join(t.TempDir(), "uids"), First: owner, Count: 1 << 16}
	gone := filepath.Join(dir, "gone")
	for range 2 {
		if got, err := p.Take(dir, "any", gone); got != owner || err != nil {
			t.Errorf("Take of what belongs to %d = %d, %v", owner, got, err)
		}
	}
	first, err := p.Take(filepath.Join(dir, "missing"), "name", gone)
	expect.NoError(t, err)
	if again, err := p.Take("", "name", gone); again != first || err != nil {
		t.Errorf("Take of the same name = %d, %v, want %d", again, err, first)
	}
}

func TestTakeAtOnce(t *testing.T) {
	p := Pool{Dir: filepath.Join(t.TempDir(), "uids"), First: 5000, Count: 40}
	holder := t.TempDir()
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := map[int]bool{}
	for range p.Count {
		all.Go(func() {
			uid, err := p.Take("", "7", holder)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[uid] || !p.Has(uid) {
				t.Errorf("Take = %d, %v, want a number of the pool that was not given before", uid, err)
			}
			seen[uid] = true
		})
	}
	all.Wait()
}

// A directory that others could write says nothing about what is in use.
func TestOpenDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "uids")
	expect.NoError(t, os.Mkdir(dir, 0o700))
	expect.NoError(t, os.Chmod(dir, 0o777))
	if uid, err := (Pool{Dir: dir, First: 5000, Count: 1}).Take("", "", dir); err == nil {
		t.Errorf("Take = %d, want a refusal of a directory with mode 0777", uid)
	}
}

func TestParse(t *testing.T) {
	if first, count, err := Parse("5000-5009"); err != nil || first != 5000 || count != 10 {
		t.Errorf("Parse = %d, %d, %v, want 5000, 10", first, count, err)
	}
	for _, text := range []string{"", "5000", "5000-", "0-10", "6000-5000", "-5-10", "5000-9999999999", "a-b"} {
		if first, count, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d, %d, want an error", text, first, count)
		}
	}
}
