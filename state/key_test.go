package state_test

import (
	"bytes"
	"os"
	"testing"

	"holon/state"
	"holon/test/expect"
)

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
