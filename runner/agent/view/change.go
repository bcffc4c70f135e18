package view

import (
	"holon/state"
	"holon/state/ledger"
)

// TreeRef says which tree of an agent something is about.
type TreeRef struct {
	WorkspaceID    string `json:"workspace_id"`
	WorkspaceAlias string `json:"workspace_alias"`
	Tree           string `json:"tree"`
	Path           string `json:"path"` // of the operator's directory that it is a copy of
}

// Entered is where an agent works from its next call of a tool on (runtime specification, "UseWorkspace").
type Entered struct {
	WorkspaceID     string          `json:"workspace_id"`
	WorkspaceAnchor string          `json:"workspace_anchor"`
	ExecutionRoot   string          `json:"execution_root"`
	Cwd             string          `json:"cwd"`
	Mode            ledger.TreeMode `json:"mode"`
	ProjectionKind  string          `json:"projection_kind"`
	SummaryText     string          `json:"summary_text,omitempty"`
}

// TreeDiff is what an agent changed in a tree.
type TreeDiff struct {
	TreeRef
	Changes   state.Diff `json:"changes"`              // its patch is a file on the host
	PatchText string     `json:"patch_text,omitempty"` // for a person, the beginning, as far as it was asked for
	Skipped   string     `json:"skipped,omitempty"`    // why it was left out; "": it was not
}

// TreeApplied is what was brought into the operator's files.
type TreeApplied struct {
	TreeRef
	Written  []string        `json:"written"`
	Deleted  []string        `json:"deleted"`
	Warnings []state.Warning `json:"warnings,omitempty"` // of what the change leaves out
	Skipped  string          `json:"skipped,omitempty"`  // why it was left out; "": it was not
}

// TreeCheckout is the branch that was made of a change.
type TreeCheckout struct {
	TreeRef
	ID       string `json:"checkout_id"` // by which holon checkout --remove finds it
	Branch   string `json:"branch"`
	Base     string `json:"base_commit"`
	Commit   string `json:"commit"`
	Commits  int    `json:"commits"`  // above the base
	Worktree string `json:"worktree"` // its working tree
}

// TreeSync is the operator's state that a tree was brought to.
type TreeSync struct {
	TreeRef
	Base    string `json:"base_commit"`
	Branch  string `json:"original_branch"`
	Changed int    `json:"changed_files"` // that the tree got
}

// TreeDiscarded is a tree that was removed.
type TreeDiscarded struct {
	TreeRef
	Changed int    `json:"changed_files"`    // in it
	Patch   string `json:"patch,omitempty"`  // file on the host with what was changed
	Bundle  string `json:"bundle,omitempty"` // likewise, a git bundle of commits elsewhere
}

// WorkspaceUse says where an agent is to work from its next turn on: one of Path and WorkspaceID.
type WorkspaceUse struct {
	Path        string `json:"path,omitempty"` // absolute; it is attached if it was not
	WorkspaceID string `json:"workspace_id,omitempty"`
	Mode        string `json:"mode,omitempty"` // direct (default), isolated
	Wait        bool   `json:"wait,omitempty"` // for the end of a turn that runs
}

// WorkspaceApply brings changes of an agent into the operator's files: those of one workspace, or of all.
type WorkspaceApply struct {
	WorkspaceID   string `json:"workspace_id,omitempty"`
	AllowExecuted bool   `json:"allow_executed,omitempty"` // also files that programs execute unasked

	// ResultTrees are those of the diffs that were read: a tree that changed since is refused, and nothing is written.
	// Without them what is there is applied.
	ResultTrees []string `json:"result_trees,omitempty"`
}

// WorkspaceCheckout makes a branch of a change.
type WorkspaceCheckout struct {
	WorkspaceID   string `json:"workspace_id,omitempty"` // "": the active one
	Branch        string `json:"branch,omitempty"`
	Path          string `json:"path,omitempty"` // absolute
	AllowExecuted bool   `json:"allow_executed,omitempty"`
}

// Selection says where an agent is to work: one of Path and WorkspaceID.
type Selection struct {
	Path        string // of the host, or of a tree as the agent sees it
	WorkspaceID string // or an alias, or the name of a tree
	Mode        ledger.TreeMode
	Key         string // of the call: the same makes one isolated tree
	By          string
	Operator    bool // who may name any directory
	Idle        bool // refused with agent_busy while a turn runs
}

// Selected is where the agent works now.
type Selected struct {
	Entered
	WorkDir string // where that is in the container
	// the workspace's file of instructions and its text, "" for none
	GuidanceName, Guidance string
}
