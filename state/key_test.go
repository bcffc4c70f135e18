package state_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// All that ask for the owner of a home get one word, which another home has not, and a file without one is refused.
func TestOwner(t *testing.T) {
	homes := [2]state.Home{}
	for i := range homes {
		var err error
		homes[i], err = state.MakeHome(t.TempDir(), "")
		expect.NoError(t, err)
	}
	words := make([]string, 8)
	var asked sync.WaitGroup
	for i := range words {
		asked.Go(func() {
			word, err := homes[0].Owner()
			if err != nil {
				t.Error(err)
			}
			words[i] = word
		})
	}
	asked.Wait()
	if other, err := homes[1].Owner(); err != nil || words[0] == "" || other == words[0] {
		t.Errorf("the owners of two homes are %q and %q, %v", words[0], other, err)
	}
	expect.Equal(t, "owners of one home", len(slices.Compact(words)), 1)
	files, err := filepath.Glob(homes[0].OwnerPath() + "*")
	if err != nil || len(files) != 1 {
		t.Errorf("files %q, %v", files, err)
	}
	expect.NoError(t, os.Truncate(homes[0].OwnerPath(), 0))
	if _, err := homes[0].Owner(); !state.IsCode(err, state.CodeHomeUnusable) {
		t.Errorf("an empty file: %v", err)
	}
}

// The key is made once, for its owner alone, and a file that holds no key is refused.
func TestTriggerKey(t *testing.T) {
	home, err := state.MakeHome(t.TempDir(), "")
	expect.NoError(t, err)
	key, err := home.TriggerKey()
	if err != nil || len(key) != 32 || bytes.Equal(key, make([]byte, 32)) {
		t.Fatalf("made %x, %v", key, err)
	}
	if info, err := os.Stat(home.TriggerKeyPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if again, err := home.TriggerKey(); err != nil || !bytes.Equal(again, key) {
		t.Errorf("read again %x, %v", again, err)
	}
	expect.NoError(t, os.Truncate(home.TriggerKeyPath(), 7))
	if _, err := home.TriggerKey(); !state.IsCode(err, state.CodeHomeUnusable) {
		t.Errorf("a key that was cut: %v", err)
	}
}
