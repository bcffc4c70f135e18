package daemon

import (
	"os"
	"strings"
	"testing"
)

// A log that grows too large is moved away while it is written to; another file
// is left alone.
func TestTurnLog(t *testing.T) {
	t.Parallel()
	f := files{dir: t.TempDir()}
	log, _, err := f.openLog()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	other, err := os.Create(f.log() + ".other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, out := range []*os.File{log, other} {
		for _, text := range []string{strings.Repeat("a", 50), strings.Repeat("b", 60)} {
			if _, err := out.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if err := f.turnLog(out, 100); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := out.WriteString("after"); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{f.log(): 5, f.log() + ".1": 110, other.Name(): 115} {
		if info, err := os.Stat(name); err != nil || info.Size() != int64(want) {
			t.Errorf("%s has %d bytes, want %d (%v)", name, info.Size(), want, err)
		}
	}
}
