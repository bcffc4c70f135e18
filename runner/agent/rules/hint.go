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
	return h.Description != "" || h.Resource != "" || len(h.Headers) > 0 || len(h.Body) > 0
}

// MergeHint adds a hint to the one that is kept. The newest content wins, except
// that content of an external trigger never replaces content of a controller of the
// agent; the content that loses is noted once.
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
	merged.Also = notes(noteOf(merged), slices.Concat(kept.Also, []ledger.WakeNote{noteOf(other)}, h.Also))
	return &merged
}

// notes are those that say something new, next to what is said already, where there is room: those of controllers of
// the agent first, and then the oldest.
func notes(said ledger.WakeNote, all []ledger.WakeNote) (kept []ledger.WakeNote) {
	for _, n := range all {
		same := func(o ledger.WakeNote) bool { return sameNote(o, n) }
		if !same(said) && !slices.ContainsFunc(kept, same) {
			kept = append(kept, n)
		}
	}
	slices.SortStableFunc(kept, func(a, b ledger.WakeNote) int { return outside(a) - outside(b) })
	kept = kept[:min(len(kept), maxNotes)]
	room := maxNoteBodies
	for i, n := range kept {
		if len(n.Body) > room {
			kept[i].Body, kept[i].BodyBytes = nil, len(n.Body)
			continue
		}
		room -= len(n.Body)
	}
	return kept
}

// outside is 1 for a note that came to an external trigger, else 0.
func outside(n ledger.WakeNote) int { return min(len(n.ExternalTriggerID), 1) }

// sameNote reports whether two notes say the same, at whatever time.
func sameNote(a, b ledger.WakeNote) bool {
	same := bytes.Equal(a.Body, b.Body)
	a.CreatedAt, a.Body, b.Body = b.CreatedAt, nil, nil
	return same && reflect.DeepEqual(a, b)
}

func noteOf(h ledger.WakeHint) ledger.WakeNote {
	return ledger.WakeNote{Reason: h.Reason, Description: visible.Clip(h.Description, maxNoteText), Source: h.Source,
		ExternalTriggerID: h.ExternalTriggerID, Resource: h.Resource, Headers: h.Headers,
		CreatedAt: h.CreatedAt, Body: h.Body}
}
