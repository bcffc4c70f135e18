package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// book is a record of turns 1, 2, 3, …: the letter at a turn's place is what it says of it.
type book struct {
	states string // p pinned, s saved, u unreferenced, x expired
	told   []string
	fails  error // of the next ExpireOutputs
	after  bool  // which records all the same
}

var letters = map[byte]ledger.OutputState{'p': ledger.OutputPinned, 's': ledger.OutputSaved,
	'u': ledger.OutputUnreferenced, 'x': ledger.OutputGone}

func (b *book) OutputStates(_ context.Context, _ string, ids []string) (map[string]ledger.OutputState, error) {
	states := map[string]ledger.OutputState{}
	for _, id := range ids {
		states[id] = letters[b.states[id[len(id)-1]-'1']]
	}
	return states, nil
}

func (b *book) ExpireOutputs(_ context.Context, _ string, gone []ledger.ExpiredOutput) error {
	if b.fails == nil || b.after {
		for _, e := range gone {
			n := e.TurnID[len(e.TurnID)-1]
			b.told = append(b.told, fmt.Sprintf("%c %s", n, e.Reason))
			b.states = b.states[:n-'1'] + "x" + b.states[n-'0':]
		}
	}
	err := b.fails
	b.fails = nil
	return err
}

// turnFiles makes the directories of n turns with a file of 100 KiB each.
func turnFiles(t *testing.T, k *Pool, a *agent, n int) (dir string) {
	t.Helper()
	dir = filepath.Join(k.private(a, sessionDir), "output", "turns")
	for i := range n {
		turn := filepath.Join(dir, fmt.Sprintf("turn_%d", i+1))
		expect.NoError(t, os.MkdirAll(turn, 0o700))
		expect.NoError(t, os.WriteFile(filepath.Join(turn, "f"), make([]byte, 100<<10), 0o600))
	}
	return dir
}

func leftOf(t *testing.T, dir string) (left string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.NoError(t, err)
	for _, e := range entries {
		left += strings.TrimPrefix(e.Name(), "turn_")
	}
	return left
}

// Which directories go depends on what is too much and on what the record needs.
func TestSurplus(t *testing.T) {
	t.Parallel()
	const kb = 1 << 10
	for name, test := range map[string]struct {
		states   string
		turns    int
		bytes    int64 // that are kept
		limit    int64 // of the operator
		left     string
		recorded []string
	}{
		"what is needed stays": {"pppppp", 2, 0, 0, "123456", nil},
		"what was exported goes": {"sssppp", 3, 0, 0, "456",
			[]string{"1 exported", "2 exported", "3 exported"}},
		"not before room is wanted": {"ssssss", 4, 0, 0, "3456", []string{"1 exported", "2 exported"}},
		"retention let it go":       {"uusppp", 4, 0, 0, "3456", []string{"1 retention", "2 retention"}},
		"a needed one between":      {"spspss", 2, 0, 0, "2456", []string{"1 exported", "3 exported"}},
		"too large": {"ssssss", 9, 350 * kb, 0, "456",
			[]string{"1 exported", "2 exported", "3 exported"}},
		"too large and needed": {"pppppp", 9, 350 * kb, 0, "123456", nil},
		"the newest stay": {"ssssss", 1, 0, 0, "56",
			[]string{"1 exported", "2 exported", "3 exported", "4 exported"}},
		"the limit forces":           {"pppppp", 9, 0, 450 * kb, "3456", []string{"1 limit", "2 limit"}},
		"the limit counts what went": {"pspppp", 4, 0, 550 * kb, "13456", []string{"2 exported"}},
		"the limit leaves the newest": {"pppppp", 9, 0, 1, "56",
			[]string{"1 limit", "2 limit", "3 limit", "4 limit"}},
		"recorded before, not recorded":  {"xpppxp", 9, 0, 0, "2346", nil},
		"what was recorded makes room":   {"xxpppp", 9, 0, 450 * kb, "3456", nil},
		"recorded, of an earlier limit":  {"xspppp", 5, 0, 0, "23456", nil},
		"less than keepNewest and large": {"pp", 1, 1, 1, "12", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
			expect.NoError(t, err)
			b := &book{states: test.states}
			k := New(Options{Home: home, KeepTurns: test.turns, KeepBytes: cmp.Or(test.bytes, 1<<30),
				MaxBytes: test.limit, Outputs: b})
			a := &agent{id: "a"}
			dir := turnFiles(t, k, a, len(test.states))
			expect.NoError(t, k.prune(t.Context(), a))
			if left := leftOf(t, dir); left != test.left || !slices.Equal(b.told, test.recorded) {
				t.Errorf("turns %s are left, recorded are %q, want %s and %q", left, b.told, test.left, test.recorded)
			}
		})
	}
}

// A process may end before the record was told, after it, or in the midst of removing: nothing goes that the record
// does not tell of, and nothing is told twice.
func TestExpiryCrash(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	for name, test := range map[string]struct {
		book    book
		half    bool // of a directory is removed
		between string
	}{
		"before the record":     {book{states: "ppp", fails: crash}, false, "123"},
		"after the record":      {book{states: "ppp", fails: crash, after: true}, false, "123"},
		"half way in a removal": {book{states: "ppp", fails: crash, after: true}, true, "123"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
			expect.NoError(t, err)
			k, a := New(Options{Home: home, MaxBytes: 1, Outputs: &test.book}), &agent{id: "a"}
			dir := turnFiles(t, k, a, 3)
			if err := k.prune(t.Context(), a); !errors.Is(err, crash) {
				t.Errorf("prune() = %v, want a crash", err)
			}
			if left := leftOf(t, dir); left != test.between {
				t.Errorf("turns %s are left in between, want %s", left, test.between)
			}
			if test.half {
				expect.NoError(t, os.Remove(filepath.Join(dir, "turn_1", "f")))
			}
			k = New(Options{Home: home, MaxBytes: 1, Outputs: &test.book}) // the next process
			for range 2 {
				expect.NoError(t, k.prune(t.Context(), &agent{id: "a"}))
			}
			if left := leftOf(t, dir); left != "23" || !slices.Equal(test.book.told, []string{"1 limit"}) {
				t.Errorf("turns %s are left, recorded are %q, want 23 and one", left, test.book.told)
			}
		})
	}
}
