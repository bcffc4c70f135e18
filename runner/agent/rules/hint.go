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
		known := func(o ledger.WakeNote) bool { return sameNote(o, n) }
		if len(merged.Also) < maxNotes && !known(noteOf(merged)) && !slices.ContainsFunc(merged.Also, known) {
			merged.Also = append(merged.Also, withinBodies(merged.Also, n))
		}
	}
	return &merged
}

// sameNote reports whether two notes say the same, at whatever time.
func sameNote(a, b ledger.WakeNote) bool {
	same := bytes.Equal(a.Body, b.Body)
	a.CreatedAt, a.Body, b.Body = b.CreatedAt, nil, nil
	return same && reflect.DeepEqual(a, b)
}

// withinBodies is a note without its body where the notes before it leave no room for that.
func withinBodies(before []ledger.WakeNote, n ledger.WakeNote) ledger.WakeNote {
	size := len(n.Body)
	for _, b := range before {
		size += len(b.Body)
	}
	if size > maxNoteBodies {
		n.Body, n.BodyBytes = nil, len(n.Body)
	}
	return n
}

func noteOf(h ledger.WakeHint) ledger.WakeNote {
	return ledger.WakeNote{Reason: h.Reason, Description: visible.Clip(h.Description, maxNoteText), Source: h.Source,
		ExternalTriggerID: h.ExternalTriggerID, Resource: h.Resource, CreatedAt: h.CreatedAt, Body: h.Body}
}
