package state

import (
	"crypto/rand"
	"fmt"
	"strings"

	"holon/responses"
)

// maxAgentID bounds the id of an agent, which is part of file names, of URLs and
// of the names of containers.
const maxAgentID = 64

// CheckAgentID reports whether id can be an agent's: 1 to 64 letters, digits, '_'
// and '-', the first a letter or a digit, or the id of a child of such an agent. A valid id is a safe file name and no
// option of a command. The error is an *Error with CodeInvalidAgent.
func CheckAgentID(id string) error {
	root := RootAgent(id)
	err := responses.CheckID("agent_id", root)
	if err == nil && len(root) <= maxAgentID && root[0] != '-' && root[0] != '_' && (root == id || IsChild(id)) {
		return nil
	}
	return &Error{Code: CodeInvalidAgent, Param: "agent_id", Message: fmt.Sprintf(
		"%.80q is not the id of an agent", id),
		Hint: fmt.Sprintf("use 1 to %d letters, digits, '_' and '-', beginning with a letter or a digit", maxAgentID),
		Err:  err}
}

// maxNewAgentID is less than maxAgentID, which ids of agents that were made before may have.
const maxNewAgentID = 63

// CheckNewAgentID reports whether id can name a new agent. That is narrower than what CheckAgentID takes: no two agents
// differ in case alone, and none has the id of a child. The error is an *Error with CodeInvalidAgent.
func CheckNewAgentID(id string) error {
	err := CheckAgentID(id)
	if err == nil && len(id) <= maxNewAgentID && id == strings.ToLower(id) && !IsChild(id) {
		return nil
	}
	return &Error{Code: CodeInvalidAgent, Param: "agent_id",
		Message: fmt.Sprintf("%.80q cannot be the id of an agent", id),
		Hint:    fmt.Sprintf("use a-z, 0-9, - and _, the first a letter or digit, %d at most", maxNewAgentID), Err: err}
}

// What the names of the socket directories of agents and of conversations begin with.
const (
	AgentIPC        = "a-"
	ConversationIPC = "s-"
)

// NewIPCID returns a name for the socket directory of one container, which begins with AgentIPC or ConversationIPC: as
// short as it can be and never the id of a run.
func NewIPCID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:12]) }
