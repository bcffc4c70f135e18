package ledger

import (
	"slices"

	"holon/state"
)

// PresetPrivateChild is that of an agent that another one supervises.
const PresetPrivateChild Preset = "private_child"

// How a private child has the workspace of its parent.
const (
	ChildInherits = "inherit"  // the parent's attached set, with trees of its own
	ChildWorktree = "worktree" // a tree from the parent's present state, which is its task's
)

// ChildHandle is the private child that carries a task out.
type ChildHandle struct {
	AgentID string `json:"child_agent_id"`
	Mode    string `json:"workspace_mode"`
	// Reported is the posture of the child that its parent was last informed of; "": it goes on.
	Reported string    `json:"reported,omitempty"`
	Worktree *Worktree `json:"worktree,omitempty"` // nil: its parent worked in its home
	TurnID   string    `json:"result_turn_id,omitempty"`
	// Check decides whether what the child did in its tree is good; nil: nothing does.
	Check *ChildCheck `json:"check,omitempty"`
}

// ChildCheck is the check of a child's tree: a command that is run without the child when it has ended.
type ChildCheck struct {
	Command string   `json:"command"`
	Paths   []string `json:"paths"` // patterns of what it gets as it was; nil: what runners of tests read
	// Begun: the child has ended, and its task ends with the check.
	Begun   bool         `json:"begun,omitempty"`
	Verdict *state.Check `json:"verdict,omitempty"` // nil before its end
}

// Verdict is what became of the check of a child; nil: it has none, or that has not ended.
func (c *ChildHandle) Verdict() *state.Check {
	if c.Check == nil {
		return nil
	}
	return c.Check.Verdict
}

// Checking reports whether the child of a task has ended and the task waits for its check.
func (t Task) Checking() bool {
	c := t.Handle.Child
	return !t.Status.Terminal() && c != nil && c.Check != nil && c.Check.Begun
}

// Worktree is the tree of a task, and what becomes of it (runtime specification, "Worktree-Isolated Child Delegation").
type Worktree struct {
	Path         string   `json:"path"` // as the parent sees it
	Branch       string   `json:"branch"`
	ChangedFiles []string `json:"changed_files"` // at most maxChangedFiles; nil: it ended, and was not looked at yet
	Changed      int      `json:"changed_count"`
	Patch        string   `json:"patch,omitempty"` // file that has the changes
	Cleanup      string   `json:"cleanup_status"`  // active, removed, retained, failed
	Reason       string   `json:"reason,omitempty"`
}

// shortFiles is how many files an event names.
const shortFiles = 20

// Short is a worktree as an event has room for it.
func (w Worktree) Short() Worktree {
	w.ChangedFiles = w.ChangedFiles[:min(len(w.ChangedFiles), shortFiles)]
	return w
}

// Values of Worktree.Cleanup.
const (
	WorktreeActive   = "active"
	WorktreeRemoved  = "removed"
	WorktreeRetained = "retained" // it has changes that nobody has taken
	WorktreeFailed   = "failed"
)

// Child returns the handle of a task that a private child carries out, nil for another one.
func (t Task) Child() *ChildHandle { return t.Handle.Child }

// CheckingTasks returns the tasks of all agents whose child has ended and that wait for its check.
func (v View) CheckingTasks() ([]Task, error) {
	begun, err := list[Task](v, "begun checks")
	return slices.DeleteFunc(begun, func(t Task) bool { return !t.Checking() }), err
}

// OpenChildren returns those of an agent's tasks that private children carry out and that have not ended.
func (v View) OpenChildren(agentID string) (children []Task, err error) {
	open, err := v.OpenTasks(agentID)
	for _, t := range open {
		if t.Handle.Child != nil {
			children = append(children, t)
		}
	}
	return children, err
}
