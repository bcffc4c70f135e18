package git

import (
	"slices"
	"testing"
)

func FuzzParseNames(f *testing.F) {
	f.Add([]byte("1\t2\ta\x00-\t-\tb\tc\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, out []byte) {
		names, err := parseNames(out)
		if err == nil && slices.Contains(names, "") {
			t.Fatalf("accepted %q", names)
		}
	})
}
