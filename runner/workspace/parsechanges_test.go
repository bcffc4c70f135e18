package workspace

import (
	"strings"
	"testing"
)

func FuzzParseChanges(f *testing.F) {
	zero, id := strings.Repeat("0", 40), strings.Repeat("ab", 20)
	f.Add([]byte(":100644 100644 " + id + " " + id + " M\x00a\x00:000000 100644 " + zero + " " + id +
		" A\x00b\n\x00:100644 100755 " + id + " " + id +
		" R086\x00c\x00d\x001\t2\ta\x00-\t-\tb\n\x000\t0\t\x00c\x00d\x00"))
	f.Add([]byte(":100644 000000 " + id + " " + zero + " D\x00a\x000\t1\ta\x00"))
	f.Add([]byte(":\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, out []byte) {
		changes, ids, err := parseChanges(out)
		if err != nil {
			return
		}
		if len(ids) != len(changes) {
			t.Fatalf("%d pairs of ids, want %d", len(ids), len(changes))
		}
		for _, c := range changes {
			switch {
			case c.Path == "":
				t.Fatalf(`%+v: c.Path = "", want another value`, c)
			case c.Status == "":
				t.Fatalf(`%+v: c.Status = "", want another value`, c)
			case (c.Status == "renamed") != (c.From != "") && c.From != "":
				t.Fatalf(`%+v: (c.Status == "renamed") != (c.From != "") && c.From != "", want the contrary`, c)
			}
		}
	})
}
