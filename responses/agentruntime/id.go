package agentruntime

import (
	"encoding/json"
	"fmt"
)

// ID is a kind of identity. Its values index [IDs].
type ID uint8

// The kinds of identity, in the order in which an event carries them.
const (
	Runtime ID = iota
	Session
	Thread
	Turn
	Task
	ParentTask
	rootTaskID
	Run
	attemptID
	Step
	ToolCall
	Action
	Subagent
	Artifact
	Evidence
	Process
	ModelRequest
	requestID
	Queue
	QueuedTurn
	Channel
	jobID
	jobItemID
	OutputRef
	Trace
	Span
	idKinds
)

var idNames = [idKinds]string{"runtime_id", "session_id", "thread_id", "turn_id", "task_id", "parent_task_id",
	"root_task_id", "run_id", "attempt_id", "step_id", "tool_call_id", "action_id", "subagent_id", "artifact_id",
	"evidence_id", "process_id", "model_request_id", "request_id", "queue_id", "queued_turn_id", "channel_id",
	"job_id", "job_item_id", "output_ref", "trace_id", "span_id"}

// String returns the name of the key that carries the id.
func (id ID) String() string { return idNames[id] }

// noun is the kind of thing that the id names: two kinds may share an id when they name the same thing.
func (id ID) noun() ID {
	switch id {
	case ParentTask, rootTaskID:
		return Task
	case attemptID:
		return Run
	case QueuedTurn:
		return Turn
	}
	return id
}

// IDs are the identities of an event; an empty one is absent.
type IDs [idKinds]string

// MarshalJSON encodes the ids that are there as an object, in the order of their kinds.
func (ids IDs) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for kind, id := range ids {
		if id == "" {
			continue
		}
		value, err := json.Marshal(id)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", idNames[kind]), value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON decodes an object of ids; keys that name no kind are dropped.
func (ids *IDs) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*ids = IDs{}
	for kind, name := range idNames {
		if value, ok := raw[name]; ok {
			if err := json.Unmarshal(value, &ids[kind]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
