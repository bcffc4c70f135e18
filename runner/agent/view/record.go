package view

import (
	"holon/responses/agentruntime"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// RecordPage is a page of an agent's record, the oldest event first.
type RecordPage struct {
	Events  []agentruntime.Event `json:"events"`
	HasMore bool                 `json:"has_more"`
	Gap     *RecordGap           `json:"gap,omitempty"` // between the reader's cursor and the first event
}

// RecordGap says that a cursor is not followed by the event after it: retention let that go, the record never had
// the cursor, or a backup was restored and what the reader has from Next on is no more. Next is the number of the event
// that the reader goes on with; the read models have what is before it.
type RecordGap struct {
	After  int64  `json:"after"`
	Next   int64  `json:"next"`
	Reason string `json:"reason"` // cursor_pruned, cursor_ahead, epoch_changed
}

// Record returns events of an agent's record that come after a number, at most limit. Errors are those of Summary.
func (s Snapshot) Record(agentID string, after int64, limit int, log record.Log) (RecordPage, error) {
	if _, err := s.shown(agentID); err != nil {
		return RecordPage{}, err
	}
	found, err := s.ledger.Events(agentID, ledger.EventQuery{After: after, Limit: clamp(limit)})
	if err != nil {
		return RecordPage{}, err
	}
	page := RecordPage{Events: make([]agentruntime.Event, 0, len(found.Events)), HasMore: found.HasNewer}
	switch {
	case after+1 < found.Oldest:
		page.Gap = &RecordGap{after, found.Oldest, "cursor_pruned"}
	case after > found.Newest:
		page.Gap = &RecordGap{after, found.Newest + 1, "cursor_ahead"}
	}
	for _, e := range found.Events {
		page.Events = append(page.Events, record.RuntimeEvent(e, log))
	}
	return page, nil
}
