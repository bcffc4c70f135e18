package patch

import (
	"context"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/go-cmp/cmp"
)

// FuzzRoundTrip makes a correct diff between any two texts, of few different
// lines so that everything is ambiguous without line numbers, and expects the
// second text exactly. (Without any context the library writes wrong headers.)
func FuzzRoundTrip(f *testing.F) {
	f.Add("abcabcabc", "abcacabd", 3)
	f.Add("aaaaaaaa", "aaaabaaaa", 0)
	f.Add("ab\x00", "", 1)
	f.Add("", "a\x01b", 2)
	f.Add("a\x02b\x02", "a\x02c", 3)
	f.Fuzz(func(t *testing.T, before, after string, context_ int) {
		old, want := text(before), text(after)
		if old == want || old == "" && want == "" {
			return
		}
		edits := udiff.Lines(old, want)
		diff, err := udiff.ToUnified("a/f", "b/f", old, edits, 1+max(0, context_%4))
		if err != nil {
			t.Skip(err)
		}
		dir := t.TempDir()
		files{"f": old}.make(t, dir)
		if _, bad := apply(context.Background(), dir, diff); bad != nil {
			t.Fatalf("%s: %s\n%q", bad.Kind, bad.Message, diff)
		}
		if d := cmp.Diff(want, read(t, dir)["f"]); d != "" {
			t.Fatalf("%s\nfrom %q by\n%q", d, old, diff)
		}
	})
}

// text makes lines of a seed: each byte is one, out of six kinds, and an odd
// number of them in all leaves the last without newline.
func text(seed string) string {
	kinds := []string{"a", "b", "", "\tx", "-- a", "++ b"}
	var s string
	for i, c := range []byte(seed[:min(len(seed), 60)]) {
		s += kinds[int(c)%len(kinds)]
		if i < len(seed)-1 || len(seed)%2 == 0 {
			s += "\n"
		}
	}
	return s
}
