package rules

import (
	"slices"

	"holon/internal/visible"
	"holon/state/ledger"
)

// Bounds of what is kept of hints that became part of another one.
const (
	maxNotes    = 32
	maxNoteText = 1 << 10 // bytes of a description
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
		known := func(o ledger.WakeNote) bool {
			o.CreatedAt = n.CreatedAt
			return o == n
		}
		if len(merged.Also) < maxNotes && !known(noteOf(merged)) && !slices.ContainsFunc(merged.Also, known) {
			merged.Also = append(merged.Also, n)
		}
	}
	return &merged
}

func noteOf(h ledger.WakeHint) ledger.WakeNote {
	return ledger.WakeNote{Reason: h.Reason, Description: visible.Clip(h.Description, maxNoteText), Source: h.Source,
		ExternalTriggerID: h.ExternalTriggerID, Resource: h.Resource, CreatedAt: h.CreatedAt}
}
