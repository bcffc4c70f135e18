package patch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/go-cmp/cmp"
)

// The property: a correct diff with mistakes in it that are tolerated gives what
// the diff meant, or is refused. Nothing in between.

// randomText makes a file, of few different lines or of many, all of one ending.
func randomText(r *rand.Rand) []string {
	kinds := []int{3, 12, 1000}[r.IntN(3)]
	lines := make([]string, r.IntN(40))
	for i := range lines {
		if k := r.IntN(kinds + 1); k > 0 {
			lines[i] = strings.Repeat("  ", k%3) + fmt.Sprintf("word%d();", k)
		}
	}
	return lines
}

// randomEdit changes up to four places.
func randomEdit(r *rand.Rand, lines []string) []string {
	out := slices.Clone(lines)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(out) + 1)
		end := min(len(out), at+r.IntN(3))
		var add []string
		for range r.IntN(4) {
			add = append(add, []string{"", "new", "  new", "\tnew", fmt.Sprintf("new%d", r.IntN(99))}[r.IntN(5)])
		}
		out = slices.Replace(out, at, end, add...)
	}
	return out
}

func join(r *rand.Rand, lines []string, ending string) string {
	s := strings.Join(lines, ending)
	if s != "" && r.IntN(8) > 0 {
		s += ending
	}
	return s
}

var header = regexp.MustCompile(`^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@`)

// mistakes are what models do to the lines of a diff. Each may make it
// unusable, but none may make it mean something else.
var mistakes = map[string]func(r *rand.Rand, lines []string) []string{
	"numbers behind the end": func(r *rand.Rand, lines []string) []string {
		return headers(lines, func(m []string) string {
			return "@@ -9" + pad(m[1]) + m[2] + " +9" + pad(m[3]) + m[4] + " @@"
		})
	},
	"no numbers": func(r *rand.Rand, lines []string) []string {
		return headers(lines, func([]string) string { return "@@" })
	},
	"wrong counts": func(r *rand.Rand, lines []string) []string {
		return headers(lines, func(m []string) string {
			return fmt.Sprintf("@@ -%s,%d +%s,%d @@", m[1], r.IntN(12), m[3], r.IntN(12))
		})
	},
	"no counts": func(r *rand.Rand, lines []string) []string {
		return headers(lines, func(m []string) string { return "@@ -" + m[1] + " +" + m[3] + " @@" })
	},
	"spaces at ends": func(r *rand.Rand, lines []string) []string {
		return body(lines, func(l string) string {
			if l[0] != '+' && r.IntN(2) == 0 {
				l += "  "
			}
			return l
		})
	},
	"blank context without its space": func(r *rand.Rand, lines []string) []string {
		return body(lines, func(l string) string { return strings.TrimSuffix(l, " ") })
	},
	"context without its space": func(r *rand.Rand, lines []string) []string {
		return body(lines, func(l string) string { return strings.TrimPrefix(l, " ") })
	},
	"blank added lines without their plus": func(r *rand.Rand, lines []string) []string {
		out := slices.Clone(lines)
		for i := 1; i+1 < len(out); i++ {
			if out[i] == "+" && strings.HasPrefix(lines[i-1], "+") && strings.HasPrefix(lines[i+1], "+") &&
				!strings.HasPrefix(lines[i-1], "+++") {
				out[i] = ""
			}
		}
		return out
	},
	"a fence": func(r *rand.Rand, lines []string) []string {
		return slices.Concat([]string{"Here:", "```diff"}, lines, []string{"```", "", "Done."})
	},
	"prose": func(r *rand.Rand, lines []string) []string {
		return append([]string{"The change:", "- does this", ""}, lines...)
	},
	"the other form": func(r *rand.Rand, lines []string) []string {
		out := []string{"*** Begin Patch"}
		for i, l := range lines {
			switch {
			case strings.HasPrefix(l, "--- a/") && i == 0:
			case strings.HasPrefix(l, "+++ b/") && i == 1:
				out = append(out, "*** Update File: f")
			default:
				out = append(out, l)
			}
		}
		return append(out, "*** End Patch")
	},
	"a hunk twice": func(r *rand.Rand, lines []string) []string {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "@@") })
		if at < 0 {
			return lines
		}
		end := at + 1
		for end < len(lines) && !strings.HasPrefix(lines[end], "@@") && lines[end] != "" &&
			strings.Contains(` +-\`, lines[end][:1]) {
			end++
		}
		return slices.Insert(slices.Clone(lines), end, lines[at:end]...)
	},
}

func pad(n string) string { return strings.Repeat("0", 5-min(5, len(n))) + n }

func headers(lines []string, f func(m []string) string) []string {
	out := slices.Clone(lines)
	for i, l := range out {
		if m := header.FindStringSubmatch(l); m != nil {
			out[i] = f(m)
		}
	}
	return out
}

func body(lines []string, f func(l string) string) []string {
	out := slices.Clone(lines)
	inside := false
	for i, l := range out {
		if strings.HasPrefix(l, "@@") {
			inside = true
		} else if inside && l != "" && strings.Contains(" +-", l[:1]) {
			out[i] = f(l)
		}
	}
	return out
}

// whole are mistakes about the text as a whole, made last.
var whole = []func(s string) string{
	func(s string) string { return s },
	func(s string) string { return s },
	func(s string) string { return strings.TrimSuffix(s, "\n") },
	func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	func(s string) string { return bom + s },
	func(s string) string { data, _ := json.Marshal(s); return string(data) },
	func(s string) string { return "    " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n    ") },
}

// corrupted makes one case of a seed.
func corrupted(r *rand.Rand) (before, after, patch string, made []string) {
	ending := []string{"\n", "\n", "\r\n"}[r.IntN(3)]
	lines := randomText(r)
	edited := randomEdit(r, lines)
	before, after = join(r, lines, ending), join(r, edited, ending)
	if strings.HasSuffix(before, ending) != strings.HasSuffix(after, ending) && before != "" && after != "" {
		after = strings.TrimSuffix(after, ending)
		before = strings.TrimSuffix(before, ending)
	}
	diff, err := udiff.ToUnified("a/f", "b/f", before, udiff.Lines(before, after), 1+r.IntN(6))
	if err != nil || diff == "" {
		return before, before, "", nil
	}
	if strings.Contains(before, "\r\n") && r.IntN(2) == 0 { // or nothing would tell the ending
		diff = strings.ReplaceAll(diff, "\r\n", "\n")
	}
	out := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	names := make([]string, 0, len(mistakes))
	for name := range mistakes {
		names = append(names, name)
	}
	slices.Sort(names)
	for range r.IntN(4) {
		name := names[r.IntN(len(names))]
		if !slices.Contains(made, name) {
			made = append(made, name)
			out = mistakes[name](r, out)
		}
	}
	return before, after, whole[r.IntN(len(whole))](strings.Join(out, "\n") + "\n"), made
}

func tryCorrupted(t *testing.T, seed1, seed2 uint64) (accepted bool, made []string) {
	t.Helper()
	before, after, patch, made := corrupted(rand.New(rand.NewPCG(seed1, seed2)))
	if before == after {
		return true, nil
	}
	dir := t.TempDir()
	files{"f": before}.make(t, dir)
	_, bad := apply(t.Context(), dir, patch)
	want := after
	if bad != nil {
		want = before
	}
	if got := read(t, dir); len(got) != 1 || got["f"] != want {
		t.Errorf("seed %d, %d: %v; error %v\n%s\nfile:\n%q\npatch:\n%q", seed1, seed2, made, bad,
			cmp.Diff(files{"f": want}, got), before, patch)
	}
	return bad == nil, made
}

func TestMistakesNeverChangeTheMeaning(t *testing.T) {
	applied, refused := 0, map[string]int{}
	const n = 600
	for i := range uint64(n) {
		ok, made := tryCorrupted(t, 1, i)
		if ok {
			applied++
			continue
		}
		for _, name := range made {
			refused[name]++
		}
		if len(made) == 0 {
			refused["none"]++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d applied; mistakes in the others: %v", applied, n, refused)
	if applied < n/2 {
		t.Errorf("only %d of %d were applied", applied, n)
	}
}

func FuzzMistakes(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { tryCorrupted(t, a, b) })
}
