package turns

import (
	"encoding/json"
	"slices"
)

// Classes of the facts about what a turn may do.
const (
	CatalogResolved   = "tool.catalog.resolved"
	PermissionDecided = "permission.evaluated"
	SandboxApplied    = "sandbox.applied"
	SandboxViolated   = "sandbox.violation"
	DecisionAllow     = "allow"
	DecisionDeny      = "deny"
	ModeExternal      = "external_sandbox"   // what holds the tools of a turn is around agentd
	ModeUnconfined    = "danger_full_access" // nothing holds them; only a host can say so
)

// maxCatalog bounds the list of tools within an event, in bytes.
const maxCatalog = 7 << 10

// Offered is a tool that a turn offers to its model.
type Offered struct {
	ToolName string `json:"tool_name"`
	Host     string `json:"host"`   // server: it runs here; client: the caller runs it
	Policy   string `json:"policy"` // DecisionAllow or DecisionDeny
	Owner    string `json:"runtime_owner"`
	Traits
}

// Places where a tool runs.
const (
	OwnerAgentd = "agentd"
	OwnerMCP    = "mcp"  // a server that is configured
	OwnerHost   = "host" // the machine around the container, which is an MCP server too
	OwnerClient = "client"
)

// Traits is how a tool behaves, as far as its owner says. What is absent is not known.
type Traits struct {
	ReadOnly        *bool    `json:"is_read_only,omitzero"`
	Destructive     *bool    `json:"is_destructive,omitzero"` // it may undo or overwrite what there is
	ConcurrencySafe *bool    `json:"is_concurrency_safe,omitzero"`
	Interrupt       string   `json:"interrupt_behavior,omitzero"` // InterruptCancel or InterruptFinish
	Capabilities    []string `json:"capabilities,omitempty"`      // filesystem_read, filesystem_write, process, task
}

// Reads are the traits of a tool that changes nothing.
func Reads(interrupt string, capabilities ...string) Traits {
	return Traits{new(true), new(false), new(true), interrupt, capabilities}
}

// Writes are the traits of a tool that changes things, one call at a time.
func Writes(destructive bool, interrupt string, capabilities ...string) Traits {
	return Traits{new(false), &destructive, new(false), interrupt, capabilities}
}

// What a call does when its turn is interrupted.
const (
	InterruptCancel = "cancel" // it ends early
	InterruptFinish = "finish" // it takes a moment, and ends by itself
)

// Catalog is the payload of tool.catalog.resolved: the tools of a turn.
type Catalog struct {
	Count    int    `json:"tool_count"`
	Revision string `json:"revision"` // digest of the names, descriptions, schemas and policies
	// TraitsOmitted says that the list has no room for the traits of its tools.
	TraitsOmitted bool `json:"traits_omitted,omitzero"`
	// Tools are left out where the thread's turn before had the same, and where they are too many. InventoryRef is the
	// revision then.
	Tools        []Offered `json:"tools,omitempty"`
	InventoryRef string    `json:"inventory_ref,omitzero"`
}

// CatalogResolved says which tools the turn offers to its model. Of many their traits are left out; tools that are too
// many even so are counted.
func (s Scope) CatalogResolved(p Catalog) RuntimeEvent {
	if !listable(p.Tools) {
		p.Tools, p.TraitsOmitted = slices.Clone(p.Tools), true
		for i := range p.Tools {
			p.Tools[i].Traits = Traits{}
		}
	}
	if !listable(p.Tools) {
		p.Tools, p.TraitsOmitted, p.InventoryRef = nil, false, p.Revision
	}
	return s.Event(CatalogResolved, p)
}

// listable reports whether an event can hold a list of tools.
func listable(list []Offered) bool {
	b, err := json.Marshal(list)
	return err == nil && len(b) <= maxCatalog
}

// Decision is the payload of permission.evaluated: a rule of the request keeps a tool call from being run.
type Decision struct {
	ToolName string `json:"tool_name"`
	Decision string `json:"decision"`
	Source   string `json:"decision_source"` // rule: one of the request
	Reason   string `json:"decision_reason" max:"2048"`
}

// Sandbox is the payload of sandbox.applied: what holds the tools of a turn.
type Sandbox struct {
	Profile     sandboxProfile    `json:"sandbox_profile"`
	Enforcement map[string]string `json:"enforcement"` // by axis: enforced, not_enforced or unknown
}

// sandboxProfile is where the tools of a turn work.
type sandboxProfile struct {
	Mode string `json:"mode"`
	Cwd  string `json:"cwd"`
}

// SandboxApplied says what holds the tools of the turn, which work in cwd: a container whose bounds agentd is not told.
// A host that made the container knows them.
func (s Scope) SandboxApplied(cwd string) RuntimeEvent {
	p := Sandbox{Profile: sandboxProfile{ModeExternal, cwd}, Enforcement: map[string]string{}}
	for _, axis := range []string{"filesystem", "network", "process", "secret"} {
		p.Enforcement[axis] = "unknown"
	}
	return s.Event(SandboxApplied, p)
}

// Violation is the payload of sandbox.violation: a tool call named a path outside the working tree, and was not run.
type Violation struct {
	Axis      string `json:"axis"`
	Attempted string `json:"attempted" max:"2048"`
	Outcome   string `json:"outcome"` // blocked
}
