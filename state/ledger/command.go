package ledger

import (
	"encoding/json"
	"time"
)

// Command is a command of the Agent Runtime standard that changed something, with its answer.
type Command struct {
	AgentID string          `json:"agent_id"`
	ID      string          `json:"command_id"` // chosen by who sent it, unique within the agent
	Name    string          `json:"name"`
	Digest  string          `json:"digest"` // of all that it says
	At      time.Time       `json:"at"`
	Through int64           `json:"applied_through_sequence"`
	NoOp    bool            `json:"no_op,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// CommandView reads commands.
type CommandView interface {
	Command(agentID, id string) (c Command, ok bool, err error)
}

// CommandTx records commands.
type CommandTx interface {
	InsertCommand(c Command) error // CodeConflict when the agent has one with this id
}
