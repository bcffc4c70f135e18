package record

import (
	"encoding/json"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
)

// Log names the log that events are read from: the runtime that it belongs to, and its numbering, which is another for
// what is written after the ledger was restored from a backup.
type Log struct {
	RuntimeID string
	Epoch     func(agentID string, seq int64) string // in which an event was written; nil: that is left out
}

// RuntimeEvent is an event as the Agent Runtime standard has it. It depends on nothing but the event.
func RuntimeEvent(e ledger.Event, log Log) agentruntime.Event {
	out := agentruntime.Event{
		Type: e.Class, EventID: e.ID, Timestamp: turns.At(e.CreatedAt).String(),
		SchemaVersion: agentruntime.SchemaVersion, Sequence: e.Seq, Status: e.Status, IDs: e.IDs, Payload: e.Data,
		Correlation: agentruntime.Correlation{CausationID: e.Cause},
	}
	if log.Epoch != nil {
		out.Correlation.LogEpoch = log.Epoch(e.AgentID, e.Seq)
	}
	out.IDs[agentruntime.Runtime], out.IDs[agentruntime.Session] = log.RuntimeID, state.SessionID(e.AgentID)
	out.IDs[agentruntime.Thread], out.IDs[agentruntime.Turn] = ThreadID(e.AgentID), e.TurnID
	if label := Of(e).Name; label != e.Class {
		out.NativeStatus = label
	}
	if e.ProducerSeq > 0 {
		out.Correlation.Producer, out.Correlation.ProducerSeq = "agentd", e.ProducerSeq
	}
	if len(out.Payload) == 0 {
		out.Payload = json.RawMessage("{}")
	}
	if refs := (recordRefs{Message: e.MessageID, Ref: e.Ref, Workspace: e.Workspace}); refs != (recordRefs{}) {
		out.Refs = encoded(refs)
	}
	return out
}

// recordRefs are the rows that an event refers to, which never change.
type recordRefs struct {
	Message string `json:"message_id,omitempty"`
	Ref     string `json:"record_id,omitempty"` // of a brief, wait, timer, trigger, notification or workspace

	Workspace string `json:"workspace_id,omitempty"` // of a turn or a call of a tool
}
