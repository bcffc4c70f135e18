package ledger

import (
	"encoding/json"
	"time"
)

// Command is a command of the Agent Runtime standard that changed something, with its answer.
type Command struct {
	AgentID string          `json:"agent_id"`
	ID      string          `json:"command_id"` // chosen by the sender, unique within the agent
	Name    string          `json:"name"`
	Digest  string          `json:"digest"` // of all that it says
	At      time.Time       `json:"at"`
	Through int64           `json:"applied_through_sequence"`
	NoOp    bool            `json:"no_op,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

func (c *Command) Row() Row {
	return Row{"commands", "command", 2, []Column{{"agent_id", &c.AgentID}, {"id", &c.ID}, {"created_at", millis(c.At)}}}
}

// Command returns a command of an agent that was carried out.
func (v View) Command(agentID, id string) (c Command, ok bool, err error) {
	return ifAny[Command](v, agentID, id)
}
