package preview

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShorten(t *testing.T) {
	cut, _ := Of(capture([]byte(strings.Repeat("line\n", 1000)), 1<<20)).Cut(800)
	long, _ := Of(capture([]byte(strings.Repeat("x", 9000)), 1<<20)).Cut(800)
	for name, tt := range map[string]struct {
		text     string
		budget   int
		contains string // "" for no preview
		cut      bool
	}{
		"whole":         {"a\nb\n", 4, "a\nb\n", false},
		"too little":    {strings.Repeat("a\n", 200), MinShort - 1, "", true},
		"lines":         {strings.Repeat("line\n", 200), 300, "first 22 and last 21 lines of 200, 1000 bytes in all", true},
		"no end":        {strings.Repeat("line\n", 200) + "end", 300, "lines of 201, 1003 bytes in all", true},
		"one line":      {strings.Repeat("ä", 500), 300, "first 55 and last 55 characters of 1000 bytes in all", true},
		"cut before":    {*cut, 300, "lines of 1000, 5000 bytes in all", true},
		"long line cut": {*long, 300, "first 110 and last 110 characters of 9000 bytes in all", true},
		"two streams":   {"stdout:\n" + *cut + "stderr:\n" + *cut, 300, " lines]\n", true},
	} {
		got, truncated := Shorten(&tt.text, tt.budget)
		if truncated != tt.cut || (got == nil) != (tt.contains == "") {
			t.Errorf("%s: %v, %v, want %q, %v", name, got, truncated, tt.contains, tt.cut)
			continue
		}
		if got == nil {
			continue
		}
		if !strings.Contains(*got, tt.contains) || strings.Count(*got, "[output truncated") > 1 {
			t.Errorf("%s: %q, want one notice, with %q", name, *got, tt.contains)
		}
	}
	if got, truncated := Shorten(nil, 1000); got != nil || truncated {
		t.Errorf("nothing became %v, %v", got, truncated)
	}
}

// A shorter preview is valid, bounded, and shortened again the same.
func FuzzShorten(f *testing.F) {
	f.Add(strings.Repeat("line\n", 100), 300)
	f.Add("\n...\n[output truncated: showing first 1 and last 1 lines]\n...\n"+strings.Repeat("ä", 200), 160)
	f.Fuzz(func(t *testing.T, text string, budget int) {
		text, budget = strings.ToValidUTF8(text, "?"), MinShort+max(0, budget%4096)
		got, cut := Shorten(&text, budget)
		if cut != (len(text) > budget) || got == nil {
			t.Fatalf("%d of %d bytes: cut is %v", budget, len(text), cut)
		}
		if !utf8.ValidString(*got) || len(*got) > budget+128 || !cut && *got != text {
			t.Fatalf("%d bytes for a budget of %d, of %d", len(*got), budget, len(text))
		}
	})
}
