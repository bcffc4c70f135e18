package turns

import "encoding/json"

// Classes of the facts about what a turn may do.
const (
	CatalogResolved    = "tool.catalog.resolved"
	PermissionDecided  = "permission.evaluated"
	SandboxApplied     = "sandbox.applied"
	SandboxViolated    = "sandbox.violation"
	DecisionAllow      = "allow"
	DecisionDeny       = "deny"
	ModeExternal       = "external_sandbox"   // what holds the tools of a turn is around agentd
	ModeUnconfined     = "danger_full_access" // nothing holds them; only a host can say so
	EnforcementUnknown = "unknown"
)

// maxCatalog bounds the list of tools within an event, in bytes.
const maxCatalog = 6 << 10

// Offered is a tool that a turn offers to its model.
type Offered struct {
	ToolName string `json:"tool_name"`
	Host     string `json:"host"`   // server: it runs here; client: the caller runs it
	Policy   string `json:"policy"` // DecisionAllow or DecisionDeny
}

// Catalog is the payload of tool.catalog.resolved: the tools of a turn.
type Catalog struct {
	Count    int    `json:"tool_count"`
	Revision string `json:"revision"` // digest of the names, descriptions, schemas and policies
	// Tools are left out where the thread's turn before had the same, and where they are too many. InventoryRef is the
	// revision then.
	Tools        []Offered `json:"tools,omitempty"`
	InventoryRef string    `json:"inventory_ref,omitempty"`
}

// CatalogResolved says which tools the turn offers to its model. Tools that are too many are counted.
func (s Scope) CatalogResolved(p Catalog) RuntimeEvent {
	p.Revision, p.InventoryRef = clip(p.Revision, maxName), clip(p.InventoryRef, maxName)
	if list, err := json.Marshal(p.Tools); err != nil || len(list) > maxCatalog {
		p.Tools, p.InventoryRef = nil, p.Revision
	}
	return s.event(CatalogResolved, "", p)
}

// Decision is the payload of permission.evaluated.
type Decision struct {
	ToolName string `json:"tool_name"`
	Decision string `json:"decision"`
	Source   string `json:"decision_source"` // rule: one of the request
	Reason   string `json:"decision_reason"`
}

// CallRefused says that a rule of the request keeps the tool call with the given id from being run.
func (s Scope) CallRefused(toolCallID, tool, reason string) RuntimeEvent {
	e := s.event(PermissionDecided, "", Decision{ToolName: clip(tool, maxName), Decision: DecisionDeny, Source: "rule",
		Reason: clip(reason, maxMessage)})
	e.ToolCallID, e.StepID = toolCallID, stepOf(toolCallID)
	return e
}

// Sandbox is the payload of sandbox.applied: what holds the tools of a turn.
type Sandbox struct {
	Profile     SandboxProfile    `json:"sandbox_profile"`
	Enforcement map[string]string `json:"enforcement"` // by axis: enforced, not_enforced or unknown
}

// SandboxProfile is where the tools of a turn work.
type SandboxProfile struct {
	Mode string `json:"mode"`
	Cwd  string `json:"cwd"`
}

// SandboxApplied says what holds the tools of the turn, which work in cwd: a container whose bounds agentd is not told.
// A host that made the container knows them.
func (s Scope) SandboxApplied(cwd string) RuntimeEvent {
	p := Sandbox{Profile: SandboxProfile{ModeExternal, clip(cwd, maxName)}, Enforcement: map[string]string{}}
	for _, axis := range []string{"filesystem", "network", "process", "secret"} {
		p.Enforcement[axis] = EnforcementUnknown
	}
	return s.event(SandboxApplied, "", p)
}

// Violation is the payload of sandbox.violation.
type Violation struct {
	Axis      string `json:"axis"`
	Attempted string `json:"attempted"`
	Outcome   string `json:"outcome"` // blocked
}

// OutsideTree says that the tool call with the given id named a path outside the working tree, and was not run.
func (s Scope) OutsideTree(toolCallID, attempted string) RuntimeEvent {
	e := s.event(SandboxViolated, "", Violation{"filesystem", clip(attempted, maxMessage), "blocked"})
	e.ToolCallID, e.StepID = toolCallID, stepOf(toolCallID)
	return e
}
