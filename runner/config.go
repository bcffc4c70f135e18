package runner

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"holon/internal/redact"
	"holon/runner/egress"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/hosttools"
	"holon/runner/service"
	"holon/runner/telemetry"
	"holon/runner/uidpool"
	"holon/runner/workspace"
	"holon/state"
)

// Config says what a session runs.
type Config struct {
	ID        string // of the run; part of the container's name
	Engine    engine.Engine
	Agentd    string // absolute path of the static agentd
	Image     string
	Dir       string // private directory of the session, made by the caller
	SocketDir string // where sockets go; replaced when its path is too long for one
	SessionID string // by which agentd knows the conversation; "": a new one
	Labels    map[string]string
	Version   string      // of holon, sent to the agent
	Secrets   *redact.Set // known values that no record may show; nil for none
	Log       *slog.Logger
	Telemetry *telemetry.Exporter // nil for none

	// Hold, when it is not nil, records what the session holds: Start calls it before the container is made and after.
	// TakeUp needs what it was called with last.
	Hold func(Held) error

	// OnContainer gets what becomes of the container, one thing after another; it may be nil.
	OnContainer func(state.ContainerChange)

	Models
	Files
	Reach
	Environment
	Confinement
}

// Models are what agentd asks.
type Models struct {
	Model     string // provider/model
	Scenario  string // file of the host that a scripted model plays, "" for none
	Fallbacks []string
	Gateway   *gateway.Gateway // nil when no provider is called
	Providers []string         // NAME=CONTRACT of those that the gateway leads to
}

// Files are what the container sees of the host's files. A tree of Source is the session's own, locked as long as that
// is there, and released with it. One of Resume stays the caller's, who may resume it while the container is held
// still.
type Files struct {
	Source    *workspace.Source // nil: no working tree
	Resume    *workspace.Held   // a tree that is there, instead of Source; nil: none
	TreeName  string            // name of the tree within the container
	TreeCache string            // cache of working trees, from which one is resumed
	Skills    []string          // directories, each with a SKILL.md
	InputDir  string            // the user's files for the turn, "" for none
	Responses string            // directory of stored responses that a turn may continue, "" for none
	AgentHome string            // of a long-lived agent, where it works when there is no Source; "" for none
	AgentDirs
}

// AgentDirs are directories of the host that stay mounted while what is in them changes. A session either has all of
// them or none, as runs do.
type AgentDirs struct {
	Workspaces string // private trees, each in a directory of its own, which the container writes
	Objects    string // git objects of the trees, which it reads
	Anchors    string // instructions and skills of the workspaces, which it reads
}

// Reach is what the container reaches through the host.
type Reach struct {
	Egress       *egress.Proxy     // nil: nothing but the model
	OnEgress     func(egress.Fact) // gets each fact about egress, one at a time; may be nil
	EgressRecord string            // file for the facts about egress
	HostTools    []hosttools.Tool  // in addition to those that every run has
	NotesRecord  string            // file for the agent's notes; "": they are not kept
	MCPConfig    string            // file with the MCP servers of the container; "": none
	Services     []service.Service // that run next to it, in containers of their own
}

// Environment is what agentd and its commands get as variables.
type Environment struct {
	Env       []string // K=V for the container and its commands
	AgentEnv  []string // K=V for agentd alone
	SecretEnv []string // names in Env whose values agentd must not show, in addition to those whose names say so
}

// Confinement bounds the container.
type Confinement struct {
	Memory   int64 // bytes; 0: the default
	NanoCPUs int64 // 0: all
	Network  string
	User     *engine.User // nil: this process's user, or one of UIDs when that is root
	UIDs     uidpool.Pool // user ids for containers of root; the zero Pool means defaultUID:defaultGID
	Runtime  string       // of the engine, "" for its default
	Accept   []string     // axes of the isolation that may be weaker than asked for
}

// validate returns an *Error for what no engine can judge.
func (c *Config) validate() error {
	for _, name := range c.Accept {
		if !slices.Contains(AxisNames(), name) {
			return &Error{Code: CodeUsage, Param: "--accept-weaker", Message: fmt.Sprintf("%.60q is not checked", name),
				Hint: "use some of " + strings.Join(AxisNames(), ", ")}
		}
	}
	if err := c.checkServices(); err != nil {
		return err
	}
	// Next to another network, or where nothing is confined, a list of hosts would bound nothing.
	if c.Egress != nil && (!ownFiles(c.Engine) || c.Network != "" && c.Network != engine.NetworkNone) {
		return &Error{Code: CodeUsage, Param: "--allow-host",
			Message: "the container could reach every host without it",
			Hint:    "use it with docker and --network none, or leave it out"}
	}
	return nil
}
