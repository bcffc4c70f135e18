package patch

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"holon/agentd/tools"
)

// Bounds of the answer to a failed hunk.
const (
	maxExplained = 5 // hunks a call
	excerptLines = 15
	excerptWidth = 160
)

// explain adds the reason to m and, for as many hunks as budget says, the lines that the file has where the hunk comes
// nearest.
func (t *fileText) explain(h *hunk, m *mismatch, budget *int) {
	if m.reason != "" {
		return
	}
	m.reason = "does not match the file"
	if m.taken > 0 {
		m.reason = fmt.Sprintf("concerns the same lines as hunk %d; merge the two", m.taken)
		return
	}
	if *budget--; *budget < 0 {
		return
	}
	if len(t.lines) == 0 {
		m.reason = "expects lines, but the file is empty"
		return
	}
	lines := h.content()
	if slices.ContainsFunc(lines, elides) {
		m.reason = "does not match the file; ... does not stand for lines left out, so write two hunks"
	}
	if slices.ContainsFunc(lines, func(l hunkLine) bool { return l.op == '+' }) {
		want := side(lines, '-')
		if at := search(t.loosely(), relax(want)); len(at) == 1 {
			m.applied = at[0] + 1
		}
	}
	old := side(lines, '+')
	if at := search(squeezed(t.lines), squeezed(old)); len(at) > 0 {
		m.reason = fmt.Sprintf("differs from the file only in spaces and tabs inside its lines, at line %d", at[0]+1)
		m.nearest = t.excerpt(at[0], len(old))
	} else if at, ok := t.nearest(old); ok {
		m.nearest = t.excerpt(at, len(old))
	} else {
		m.reason = "has no line in common with the file"
		m.nearest = t.excerpt(max(0, h.start-1), excerptLines)
	}
}

// elides reports a context line that seems to stand for lines left out.
func elides(l hunkLine) bool {
	text := strings.TrimSpace(l.text)
	return l.op == ' ' && (strings.HasSuffix(text, "...") || strings.HasSuffix(text, "…"))
}

// squeezed takes all spaces and tabs out of lines.
func squeezed(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.Join(strings.Fields(l), "")
	}
	return out
}

// nearest returns the place at which most words of the lines old stand in the file, if they are at least half as many
// as one line has.
func (t *fileText) nearest(old []string) (int, bool) {
	wanted := make(map[string][]int) // by word: the lines of old that have it
	longest := 0
	for i, l := range old {
		words := split(l)
		longest = max(longest, len(words))
		for _, w := range words {
			if len(wanted[w]) < 4 && !slices.Contains(wanted[w], i) {
				wanted[w] = append(wanted[w], i)
			}
		}
	}
	votes := make(map[int]int)
	best, most := 0, 0
	for i, l := range t.lines {
		for _, w := range split(l) {
			for _, j := range wanted[w] {
				if votes[i-j]++; votes[i-j] > most {
					best, most = i-j, votes[i-j]
				}
			}
		}
	}
	return max(0, best), most > 0 && 2*most >= longest
}

// split returns the different words at the beginning of a line.
func split(s string) []string {
	words := strings.FieldsFunc(tools.Clip(s, 500), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	})
	slices.Sort(words)
	return slices.Compact(words)
}

// excerpt shows n lines from index at, and one around them, with their numbers.
func (t *fileText) excerpt(at, n int) []string {
	from := max(0, min(at, len(t.lines))-1)
	to := min(len(t.lines), from+min(n+2, excerptLines))
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%d|%s", i+1, tools.Clip(strings.TrimSuffix(t.lines[i], "\r"), excerptWidth)))
	}
	return out
}
