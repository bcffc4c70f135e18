package sessions

import (
	"path/filepath"
	"strings"

	"holon/internal/roots"
	"holon/runner"
	"holon/state"
)

// Kind is what a session serves.
type Kind int

// The kinds of sessions.
const (
	Runs Kind = iota
	Agents
	Conversations
)

// What begins the claims on trees that outlive a container: the records of agents and of conversations keep them.
const (
	AgentClaim        = "agent/"
	ConversationClaim = "session/"
)

// kinds has of each kind of session: the beginning of String, and so of its claims on trees, the label of its
// containers with the id of what it serves, and the beginning of the names of its socket directories. A run is known by
// runner.LabelRun and has one directory, with its id.
var kinds = [...]struct{ prefix, label, ipc string }{
	Runs:          {prefix: "run/"},
	Agents:        {AgentClaim, runner.LabelAgent, state.AgentIPC},
	Conversations: {ConversationClaim, runner.LabelConversation, state.ConversationIPC},
}

// kindOf returns the first kind but Runs for which is reports true, else Runs.
func kindOf(is func(k Kind) bool) Kind {
	for k := Agents; int(k) < len(kinds); k++ {
		if is(k) {
			return k
		}
	}
	return Runs
}

// ofSockets is whose a directory of sockets is, by its name.
func ofSockets(name string) Kind {
	return kindOf(func(k Kind) bool { return strings.HasPrefix(name, kinds[k].ipc) })
}

// ofClaim is whose a claim on a tree is. Runs claim with their ids alone.
func ofClaim(by string) Kind {
	return kindOf(func(k Kind) bool { return strings.HasPrefix(by, kinds[k].prefix) })
}

// ofLabels is whose a container is, and the id of the agent or the conversation.
func ofLabels(labels map[string]string) (Kind, string) {
	k := kindOf(func(k Kind) bool { return labels[kinds[k].label] != "" })
	return k, labels[kinds[k].label]
}

// Key names a session of a home.
type Key struct {
	kind Kind
	id   string
}

// OfRun is the key of the session of a run.
func OfRun(id string) Key { return Key{Runs, id} }

// OfAgent is the key of the session of an agent.
func OfAgent(id string) Key { return Key{Agents, id} }

// OfConversation is the key of the session of a client's conversation.
func OfConversation(id string) Key { return Key{Conversations, id} }

// String is "run/<run_id>", "agent/<agent_id>" or "session/<id>".
func (k Key) String() string { return kinds[k.kind].prefix + k.id }

// Kind is what the session serves.
func (k Key) Kind() Kind { return k.kind }

// Check reports whether the id can be one of its kind. The error is an *Error of package state.
func (k Key) Check() error {
	switch k.kind {
	case Agents:
		return state.CheckAgentID(k.id)
	case Conversations:
		return state.CheckConversationID(k.id)
	}
	return state.CheckRunID(k.id)
}

// newContainer returns the names of a container to be made for the session, and of the directory of its sockets.
func (k Key) newContainer() (name, sockets string) {
	if k.kind == Runs {
		return k.id, k.id
	}
	sockets = state.NewIPCID(kinds[k.kind].ipc)
	return strings.Replace(k.String(), "/", "-", 1) + "-" + sockets, sockets
}

// labels adds to those of a container by which it is known whose it is.
func (m *Manager) labels(key Key, labels map[string]string) map[string]string {
	labels = m.Claim.Labels(key, labels)
	labels[runner.LabelHome] = m.Home.Dir()
	if label := kinds[key.kind].label; label != "" {
		labels[label] = key.id
	}
	return labels
}

// Dir is where a session keeps what is the host's alone, its record first.
func (m *Manager) Dir(key Key) string {
	switch key.kind {
	case Agents:
		_ = roots.Reopen(m.Home.AgentDir(key.id)) // the agent may have closed it; what needs it reports one that is gone
		return m.Home.AgentPrivateDir(key.id)
	case Conversations:
		return m.Home.SessionDir(key.id)
	}
	return m.Home.RunDir(key.id)
}

// SessionDir is what the container and agentd write: runner.Config.Dir.
func (m *Manager) SessionDir(key Key) string { return filepath.Join(m.Dir(key), "session") }

// IDs lists the sessions of a kind, except runs, that have a directory in the home.
func (m *Manager) IDs(kind Kind) ([]string, error) {
	if kind == Conversations {
		return m.Home.ConversationIDs()
	}
	return m.Home.AgentIDs()
}
