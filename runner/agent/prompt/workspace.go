package prompt

import (
	"fmt"
	"strings"

	"holon/runner/agent/view"
	"holon/state/ledger"
)

// Workspaces are where an agent works, and where it may.
type Workspaces struct {
	Active   view.WorkspaceEntry
	Attached []ledger.Workspace
}

// maxWorkspaces bounds how many are named.
const maxWorkspaces = 20

// block says where the turn works, "" for an agent that has nothing but its home. Paths are those of the container.
func (w Workspaces) block(a ledger.Agent) string {
	if len(w.Attached) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[workspace] active: %s; execution root: %s; cwd: %s; attached:", w.Active.WorkspaceID,
		w.Active.ExecutionRoot, w.Active.Cwd)
	for i, a := range w.Attached {
		if i == maxWorkspaces {
			fmt.Fprintf(&b, " and %d more;", len(w.Attached)-i)
			break
		}
		fmt.Fprintf(&b, " %s (%s)", a.ID, quoted(a.Alias))
	}
	b.WriteString(". UseWorkspace switches between them and agent_home, your home. You work on copies")
	if a.Kind == ledger.KindChild {
		b.WriteString(" of your own: say in your result what you changed in them.")
	} else {
		b.WriteString(": your operator sees and takes what you change in them.")
	}
	return b.String()
}
