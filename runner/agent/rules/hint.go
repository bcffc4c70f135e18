package rules

import (
	"bytes"
	"reflect"
	"slices"

	"holon/internal/visible"
	"holon/state/ledger"
)

// Bounds of what is kept of hints that became part of another one.
const (
	maxNotes      = 32
	maxNoteText   = 1 << 10  // bytes of a description
	maxNoteBodies = 32 << 10 // bytes of all bodies
)

// HintContent reports whether a wake hint says more than that it came.
func HintContent(h ledger.WakeHint) bool {
	return h.Description != "" || h.Resource != "" || len(h.Body) > 0
}

// MergeHint adds a hint to the one that is kept. The newest content wins, except
// that what came to an external trigger never replaces what who controls the agent
// said; what the other one said is noted once.
func MergeHint(kept *ledger.WakeHint, h ledger.WakeHint) *ledger.WakeHint {
	if kept == nil {
		return &h
	}
	merged, other := *kept, h
	outranked := HintContent(*kept) && kept.ExternalTriggerID == "" && h.ExternalTriggerID != ""
	if HintContent(h) && !outranked || !HintContent(*kept) {
		merged, other = h, *kept
	}
	merged.Coalesced = kept.Coalesced + h.Coalesced + 1
	merged.Also = slices.Clone(kept.Also)
	for _, n := range append([]ledger.WakeNote{noteOf(other)}, h.Also...) {
		if !sameNote(noteOf(merged), n) {
			merged.Also = addNote(merged.Also, n)
		}
	}
	return &merged
}

// addNote adds a note that says something new, where there is room. What came to an external trigger makes room for
// what who controls the agent said.
func addNote(notes []ledger.WakeNote, n ledger.WakeNote) []ledger.WakeNote {
	if slices.ContainsFunc(notes, func(o ledger.WakeNote) bool { return sameNote(o, n) }) {
		return notes
	}
	if len(notes) == maxNotes {
		at := len(notes) - 1
		for at >= 0 && !triggered(notes[at]) {
			at--
		}
		if at < 0 || triggered(n) {
			return notes
		}
		notes = slices.Delete(notes, at, at+1)
	}
	return withinBodies(append(notes, n))
}

// triggered reports whether a note came to an external trigger.
func triggered(n ledger.WakeNote) bool { return n.ExternalTriggerID != "" }

// sameNote reports whether two notes say the same, at whatever time.
func sameNote(a, b ledger.WakeNote) bool {
	same := bytes.Equal(a.Body, b.Body)
	a.CreatedAt, a.Body, b.Body = b.CreatedAt, nil, nil
	return same && reflect.DeepEqual(a, b)
}

// withinBodies removes the bodies that exceed the limit. It keeps those of operators first, and then the oldest.
func withinBodies(notes []ledger.WakeNote) []ledger.WakeNote {
	size := 0
	for _, through := range []bool{false, true} {
		for i, n := range notes {
			if triggered(n) != through {
				continue
			}
			if size+len(n.Body) > maxNoteBodies {
				notes[i].Body, notes[i].BodyBytes = nil, len(n.Body)
				continue
			}
			size += len(n.Body)
		}
	}
	return notes
}

func noteOf(h ledger.WakeHint) ledger.WakeNote {
	return ledger.WakeNote{Reason: h.Reason, Description: visible.Clip(h.Description, maxNoteText), Source: h.Source,
		ExternalTriggerID: h.ExternalTriggerID, Resource: h.Resource, CreatedAt: h.CreatedAt, Body: h.Body}
}
