package patch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxFailedHunks ends the search for the places of one file's hunks.
const maxFailedHunks = 20

// placed is a hunk with its place in the file.
type placed struct {
	reading
	pos     int  // index of the first line concerned
	old     int  // how many lines it replaces or keeps
	space   bool // spaces at line ends differ
	endings bool // line endings differ, or the hunk does not show the file's
	hunk    int  // from 1
}

// mismatch says why a hunk has no place.
type mismatch struct {
	hunk       int // from 1
	line       int // of the patch
	reason     string
	candidates []int // line numbers where it would fit
	nearest    []string
	applied    int // line number where its result already stands, or 0
	taken      int // the hunk that has taken the place, or 0
}

// place finds where each hunk belongs, all in the file as it is now. Of the hunks that have no place, explanations are
// explained with lines of the file.
func (t *fileText) place(hunks []hunk, explanations *int) (list []placed, notes []diagnostic, bad []mismatch) {
	var after order
	for i := range hunks {
		h := &hunks[i]
		if len(h.lines) == 0 {
			continue
		}
		p, failed := t.locate(h, list, after)
		if failed != nil {
			t.explain(h, failed, explanations)
			failed.hunk, failed.line = i+1, h.line
			if bad = append(bad, *failed); len(bad) == maxFailedHunks {
				break // enough to show that the model has another file in mind
			}
			continue
		}
		p.hunk = i + 1
		list = append(list, p)
		after = order{end: p.pos + p.old, start: h.start}
		notes = append(notes, t.notes(h, p)...)
	}
	slices.SortStableFunc(list, func(a, b placed) int { return cmp.Compare(a.pos, b.pos) })
	return list, notes, bad
}

// order is where the previous hunk ended, and which line its header stated.
type order struct{ end, start int }

// locate finds the one place of a hunk, trying its readings from the most to the least literal.
func (t *fileText) locate(h *hunk, taken []placed, after order) (placed, *mismatch) {
	if len(side(h.lines, '+')) == 0 {
		return t.locateInsertion(h, taken, after.end)
	}
	taker := 0
	for _, r := range h.readings() {
		p, failed := t.fit(h, r, taken, after)
		if failed != nil && failed.taken > 0 {
			taker = failed.taken
		} else if failed != nil && failed.reason != "" {
			return placed{}, failed
		}
		if failed != nil {
			continue
		}
		if other, ok := h.otherMeaning(r); ok {
			if q, failed := t.fit(h, other, taken, after); failed == nil || len(failed.candidates) > 0 {
				return placed{}, &mismatch{reason: "can be understood in two ways",
					candidates: lineNumbers([]int{p.pos, q.pos})}
			}
		}
		return p, nil
	}
	return placed{}, &mismatch{taken: taker}
}

// fit finds the one place of a reading: where it stands exactly or, if that is nowhere, without regard to spaces and
// endings of lines. A mismatch without a reason means that there is no place.
func (t *fileText) fit(h *hunk, r reading, taken []placed, after order) (placed, *mismatch) {
	old := side(r.lines, '+')
	if len(old) == 0 {
		return placed{}, &mismatch{}
	}
	found := []int{h.start - 1} // would be chosen among others too
	if !t.stands(old, h.start-1) {
		found = search(t.lines, old)
	}
	if len(found) == 0 {
		found = search(t.loosely(), relax(old))
	}
	if len(found) == 0 {
		return placed{}, &mismatch{}
	}
	pos, ok := t.choose(h, found, len(old), after)
	if !ok {
		return placed{}, &mismatch{reason: fmt.Sprintf("fits in %d places", len(found)), candidates: lineNumbers(found)}
	}
	if i := slices.IndexFunc(taken, func(p placed) bool { return overlaps(p, pos, len(old)) }); i >= 0 {
		return placed{}, &mismatch{taken: taken[i].hunk} // free places elsewhere prove nothing
	}
	if above, ok := t.anchored(h); ok && !h.numbered && pos+len(old) <= above {
		return placed{}, &mismatch{reason: fmt.Sprintf("fits at line %d only, which is above line %d that its "+
			"header names", pos+1, above+1), nearest: t.excerpt(pos, len(old))}
	}
	p := placed{reading: r, pos: pos, old: len(old)}
	p.space, p.endings = differences(t.lines[pos:pos+len(old)], old)
	return p, nil
}

// stands reports whether lines stand at an index of the file.
func (t *fileText) stands(lines []string, at int) bool {
	return at >= 0 && at+len(lines) <= len(t.lines) && slices.Equal(t.lines[at:at+len(lines)], lines)
}

// locateInsertion places a hunk of added lines only, which needs another sign of where it belongs.
func (t *fileText) locateInsertion(h *hunk, taken []placed, end int) (placed, *mismatch) {
	p := placed{reading: reading{lines: h.lines}, endings: t.crlf > 0}
	above, anchored := t.anchored(h)
	switch {
	case len(t.lines) == 0:
	case h.atEnd:
		p.pos = len(t.lines)
	case h.insertAt && h.start <= len(t.lines) && h.start >= end:
		p.pos = h.start
	case anchored:
		p.pos = above + 1
	default:
		return placed{}, &mismatch{reason: "has only added lines, so its place is unknown",
			nearest: t.excerpt(max(0, h.start-1), 3)}
	}
	if i := slices.IndexFunc(taken, func(o placed) bool { return o.old == 0 && o.pos == p.pos }); i >= 0 {
		return placed{}, &mismatch{taken: taken[i].hunk}
	}
	return p, nil
}

// choose picks one of several places if something in the hunk decides.
func (t *fileText) choose(h *hunk, found []int, n int, after order) (int, bool) {
	if len(found) == 1 {
		return found[0], true
	}
	if h.start > 0 && slices.Contains(found, h.start-1) {
		return h.start - 1, true
	}
	if last := found[len(found)-1]; h.atEnd && last+n == len(t.lines) {
		return last, true
	}
	if above, ok := t.anchored(h); ok {
		if i := slices.IndexFunc(found, func(pos int) bool { return pos > above }); i >= 0 {
			return found[i], true
		}
	}
	if after.end > 0 && (h.start < 0 || h.start > after.start) {
		// Hunks come in the order of the file, if their numbers do not deny it.
		below := slices.DeleteFunc(slices.Clone(found), func(pos int) bool { return pos < after.end })
		if len(below) == 1 {
			return below[0], true
		}
	}
	return 0, false
}

// anchored returns the index of the line that the hunk's header names.
func (t *fileText) anchored(h *hunk) (int, bool) {
	at := -1
	for _, a := range h.anchors {
		var hits []int
		for i := at + 1; i < len(t.lines); i++ {
			// git cuts long ones
			if l := strings.TrimSpace(t.lines[i]); l == a || len(a) >= 20 && strings.HasPrefix(l, a) {
				hits = append(hits, i)
			}
		}
		if len(hits) == 0 || len(hits) > 1 && at < 0 {
			return 0, false
		}
		at = hits[0]
	}
	return at, at >= 0
}

func overlaps(p placed, pos, n int) bool { return pos < p.pos+p.old && p.pos < pos+n }

func lineNumbers(found []int) []int {
	numbers := make([]int, 0, 10)
	for _, pos := range found[:min(len(found), 10)] {
		numbers = append(numbers, pos+1)
	}
	return numbers
}
