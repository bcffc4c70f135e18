package local

import (
	"os"
	"strings"
	"testing"
)

// The command name in /proc/<pid>/stat is the program's own choice.
func TestParseStat(t *testing.T) {
	fields := strings.Repeat("0 ", 18) + "4242 1 2 3"
	for name, test := range map[string]struct {
		line  string
		ticks uint64
		state byte
	}{
		"plain":       {"12 (cat) S " + fields, 4242, 'S'},
		"parentheses": {"12 (a) R 1 (b)) Z " + fields, 4242, 'Z'},
		"newline":     {"12 (a\n) S 0) R " + fields, 4242, 'R'},
		"short":       {"12 (cat) S 1 2 3", 0, 0},
		"no name":     {"12 cat S " + fields, 0, 0},
		"no number":   {"12 (cat) S " + strings.Replace(fields, "4242", "x", 1), 0, 0},
		"empty":       {"", 0, 0},
	} {
		ticks, state, err := parseStat([]byte(test.line))
		if (err != nil) != (test.ticks == 0) || err == nil && (ticks != test.ticks || state != test.state) {
			t.Errorf("%s: %d, %c, %v", name, ticks, state, err)
		}
	}
	if self, err := identify(os.Getpid()); err != nil || !self.alive() {
		t.Errorf("this process: %+v, %v", self, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (cat) S " + strings.Repeat("0 ", 18) + "4242 1"))
	f.Add([]byte(")))((("))
	f.Add([]byte("1 () "))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, state, err := parseStat(data); err == nil && state == 0 {
			t.Error("no state and no error")
		}
	})
}
