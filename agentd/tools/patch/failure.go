package patch

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"holon/agentd/tools"
)

// Bounds of the answer to failed hunks.
const (
	maxFailures  = 8 // listed in the details
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
	if *budget--; *budget < 0 {
		return
	}
	if len(t.raw) == 0 {
		m.reason = "expects lines, but the file is empty"
		return
	}
	old, now := h.side('+'), h.side('-')
	if at := search(t.at(1), relaxed(old, 1)); len(at) > 0 { // all of them above the hunk before
		m.reason = outOfOrder(at[len(at)-1])
		return
	}
	if at := search(t.at(1), relaxed(now, 1)); len(at) == 1 && len(now) > len(old)-len(now) {
		m.applied = at[0] + 1
	}
	at, ok := t.nearest(old)
	if !ok {
		m.reason = "has no line in common with the file"
		m.nearest = t.excerpt(max(0, h.start-1), excerptLines)
		return
	}
	m.nearest = t.excerpt(at, len(old))
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
			if len(wanted[w]) < 4 {
				wanted[w] = append(wanted[w], i)
			}
		}
	}
	votes := make(map[int]int)
	best, most := 0, 0
	for i, l := range t.raw {
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
	from := max(0, min(at, len(t.raw))-1)
	to := min(len(t.raw), from+min(n+2, excerptLines))
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%d|%s", i+1, tools.Clip(strings.TrimRight(t.raw[i], "\r\n"), excerptWidth)))
	}
	return out
}

// mismatched is the error for a file whose hunks have no place.
func mismatched(path string, failed []mismatch) *tools.Error {
	first := failed[0]
	e := &tools.Error{
		Kind:         kindMismatch,
		Message:      fmt.Sprintf("%s: hunk %d (patch line %d) %s", path, first.hunk, first.line, first.reason),
		RecoveryHint: "read the file again and repeat its lines exactly as context; nothing was changed",
	}
	if len(first.candidates) > 0 {
		e.Kind = kindAmbiguous
		e.RecoveryHint = "give more unchanged lines around the change, or the line numbers, so that it fits in one " +
			"place; nothing was changed"
	}
	if !slices.ContainsFunc(failed, func(m mismatch) bool { return m.applied == 0 }) {
		e.Kind = kindApplied
	}
	if first.applied > 0 {
		e.Message += fmt.Sprintf("; its result already stands at line %d", first.applied)
		e.RecoveryHint = "the change seems to be made already; leave this hunk out; nothing was changed"
	}
	hunks := make([]map[string]any, 0, len(failed))
	for _, m := range failed[:min(len(failed), maxFailures)] {
		d := map[string]any{"hunk": m.hunk, "patch_line": m.line, "reason": m.reason}
		if len(m.candidates) > 0 {
			d["candidate_lines"] = m.candidates
		}
		if len(m.nearest) > 0 {
			d["file_has"] = m.nearest
		}
		if m.applied > 0 {
			d["already_applied_at_line"] = m.applied
		}
		hunks = append(hunks, d)
	}
	e.Details = map[string]any{"path": path, "failed_hunks": len(failed), "hunks": hunks}
	return e
}

// joined is one error for several files, so that a model can correct all of them at once.
func joined(failures []*tools.Error) *tools.Error {
	first := *failures[0]
	if len(failures) == 1 {
		return &first
	}
	more := make([]map[string]any, 0, maxFailures)
	for _, e := range failures[1:min(len(failures), maxFailures)] {
		more = append(more, map[string]any{"kind": e.Kind, "message": e.Message, "details": e.Details})
	}
	details := map[string]any{"failed_files": len(failures), "other_failures": more}
	for k, v := range first.Details {
		details[k] = v
	}
	first.Details = details
	first.Message += fmt.Sprintf(" (and %d more files have problems)", len(failures)-1)
	return &first
}
