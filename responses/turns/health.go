package turns

import (
	"fmt"

	"holon/responses"
)

// States of a server in Health.
const (
	healthStarting = "starting" // alive, not yet taking turns
	HealthReady    = "ready"    // taking turns
	HealthDraining = "draining" // finishing its turns, refusing new ones
)

// EngineAgentd is the value of Health.Engine: which kind of agent answers.
const EngineAgentd = "agentd"

// Health is the answer of GET /health. It is made without asking a model or a disk.
type Health struct {
	Status      string   `json:"status"`
	Version     string   `json:"version"`
	Engine      string   `json:"engine"`
	Models      []string `json:"models"` // provider/model, the default first
	Skills      []string `json:"skills"` // names of enabled skills
	ActiveTurns int      `json:"active_turns"`
	QueuedTurns int      `json:"queued_turns"`
	Instance    string   `json:"instance"`   // new with every process
	RuntimeID   string   `json:"runtime_id"` // of the installation, as in the facts of turns

	MCP      []MCPServer `json:"mcp"`      // servers of tools, the host's first
	Programs []string    `json:"programs"` // those on PATH that projects need, and a shell, by name

	Versions map[string]string `json:"versions,omitempty"` // of programs, as far as files next to them say
}

// States of an MCPServer.
const (
	MCPConnecting = "connecting" // for the first time, or again
	MCPReady      = "ready"
	MCPFailed     = "failed" // it is tried again when a turn needs it
)

// MCPServer is how one MCP server is.
type MCPServer struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Tools   int    `json:"tools"`   // that it offers, as far as is known
	Refused int    `json:"refused"` // that it offers and no model is told of
	Error   string `json:"error"`   // why it is not ready, "" when it is
}

// MarshalJSON writes every key, with lists that are never null.
func (h Health) MarshalJSON() ([]byte, error) {
	type plain Health // without this method
	return marshal(plain(h))
}

// DecodeHealth reads the answer of GET /health. Errors are *responses.Error values.
func DecodeHealth(data []byte) (Health, error) {
	var h Health
	if err := decode(data, &h); err != nil {
		return Health{}, err
	}
	switch h.Status {
	case healthStarting, HealthReady, HealthDraining:
	default:
		return Health{}, invalid("status", fmt.Sprintf("health status must be starting, ready or draining, not %.64q",
			h.Status))
	}
	if err := responses.CheckID("instance", h.Instance); err != nil {
		return Health{}, err
	}
	return h, nil
}
