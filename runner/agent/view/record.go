package view

import (
	"cmp"
	"encoding/json"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// Log names the log that events are read from: the runtime that it belongs to, and its numbering, which is another for
// what is written after the ledger was restored from a backup.
type Log struct {
	RuntimeID string
	Epoch     func(agentID string, seq int64) string // in which an event was written; nil: that is left out
}

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

// maxRecordPage bounds the payloads of a page, in bytes; one event may exceed it alone.
const maxRecordPage = 4 << 20

// Record returns events of an agent's record that come after a number, at most limit. Errors are those of Summary.
func (s Snapshot) Record(agentID string, after int64, limit int, log Log) (RecordPage, error) {
	if _, err := public(s.ledger, agentID); err != nil {
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
	bytes := 0
	for _, e := range found.Events {
		if bytes > maxRecordPage {
			page.HasMore = true
			break
		}
		page.Events = append(page.Events, RuntimeEvent(e, log))
		bytes += len(e.Data) + 512
	}
	return page, nil
}

// RuntimeEvent is an event as the Agent Runtime standard has it. It depends on nothing but the event.
func RuntimeEvent(e ledger.Event, log Log) agentruntime.Event {
	out := agentruntime.Event{
		Type: cmp.Or(e.Class, "holon."+e.Type), EventID: e.ID, Timestamp: turns.At(e.CreatedAt).String(),
		SchemaVersion: agentruntime.SchemaVersion, Sequence: e.Seq, Status: e.Status, IDs: e.IDs, Payload: object(e.Data),
		Correlation: agentruntime.Correlation{CausationID: e.Cause},
	}
	if log.Epoch != nil {
		out.Correlation.LogEpoch = log.Epoch(e.AgentID, e.Seq)
	}
	out.IDs[agentruntime.Runtime], out.IDs[agentruntime.Session] = log.RuntimeID, record.SessionID(e.AgentID)
	out.IDs[agentruntime.Thread], out.IDs[agentruntime.Turn] = record.ThreadID(e.AgentID), e.TurnID
	if e.Type != out.Type {
		out.NativeStatus = e.Type
	}
	if e.ProducerSeq > 0 {
		out.Correlation.Producer, out.Correlation.ProducerSeq = "agentd", e.ProducerSeq
	}
	if out.Payload == nil {
		out.Payload = json.RawMessage("{}")
	}
	if refs := (recordRefs{Message: e.MessageID, Ref: e.Ref}); refs != (recordRefs{}) {
		out.Refs, _ = json.Marshal(refs) // texts can be encoded
	}
	return out
}

// recordRefs are the rows that an event refers to, which never change.
type recordRefs struct {
	Message string `json:"message_id,omitempty"`
	Ref     string `json:"record_id,omitempty"` // of a brief, wait, timer, trigger or notification
}
