package oneshot

import (
	"encoding/json"
	"fmt"
	"strings"

	"holon/runner/gateway"
	"holon/runner/workspace"
	"holon/state"
)

// Workspace is the value of "workspace" in a manifest: what the run started from and what it changed.
type Workspace struct {
	workspace.Info
	Changes *workspace.Diff `json:"changes"` // nil when they were not collected
}

// WorkspaceOf reads the workspace from a manifest; zero when the run ended before it was known.
func WorkspaceOf(m *state.Manifest) Workspace {
	var w Workspace
	if json.Unmarshal(m.Workspace, &w) != nil {
		return Workspace{}
	}
	return w
}

// accountOf reads from a manifest what the gateway metered, nil where no provider was asked.
func accountOf(m *state.Manifest) *gateway.Account {
	var a *gateway.Account
	if json.Unmarshal(m.ModelUsage, &a) != nil {
		return nil
	}
	return a
}

// Spent says how much of its budget a run took, "" when it had none or asked no
// provider: "2 of 10 requests, 300 of 5000 tokens, 0.0014 of 0.01 spent".
func Spent(m *state.Manifest) string {
	a := accountOf(m)
	if a == nil {
		return ""
	}
	var parts []string
	if most := a.Budget.MaxRequests; most > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d requests", a.Requests, most))
	}
	if most := a.Budget.MaxTokens; most > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", a.Total, most))
	}
	if most := a.Budget.MaxCost; most > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s spent", a.Cost, most))
	}
	return strings.Join(parts, ", ")
}
