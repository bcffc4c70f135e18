package state

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Workspace says what a run started from and what it changed.
type Workspace struct {
	Source
	Changes *Diff `json:"changes"` // nil when they were not collected
}

// MarshalJSON escapes <, > and & in names, as every manifest has them.
func (w Workspace) MarshalJSON() ([]byte, error) {
	type plain Workspace
	return json.Marshal(plain(w))
}

// Source is the directory that a run works on.
type Source struct {
	Kind          string      `json:"kind"`                  // git or copy
	Path          string      `json:"path"`                  // top of the working tree, links resolved
	Prefix        string      `json:"prefix,omitempty"`      // the run's directory within it
	BaseCommit    string      `json:"base_commit,omitempty"` // HEAD; empty for an unborn branch or a plain directory
	BaseTree      string      `json:"base_tree,omitempty"`   // what the tree starts from; known when it is made
	StartTree     string      `json:"start_tree,omitempty"`  // the base with the change of the run that is continued
	Branch        string      `json:"branch,omitempty"`      // empty when detached
	ObjectFormat  string      `json:"object_format"`         // sha1 or sha256
	Dirty         bool        `json:"dirty"`                 // uncommitted or untracked files existed
	IncludedDirty bool        `json:"included_dirty"`        // and they are part of the base
	Shallow       bool        `json:"shallow,omitempty"`
	Submodules    []Submodule `json:"submodules,omitempty"` // known when the tree is made
	Ignored       *Ignored    `json:"ignored,omitempty"`    // nil where none is, and of a plain directory
	Warnings      []Warning   `json:"warnings,omitempty"`
}

// Ignored is what git ignores in the user's working tree. Paths are raw bytes; those of directories end with /.
type Ignored struct {
	LeftOut []string `json:"left_out"` // the ones with most files first; at most 100
	Files   int      `json:"files"`    // that were left out
	More    bool     `json:"more"`     // there are more files than that: they were not all counted
	Taken   []string `json:"taken"`    // what was copied into the tree, as it was asked for
	Bytes   int64    `json:"bytes"`    // of its files
}

// Submodule is a commit entry of the base.
type Submodule struct {
	Path      string `json:"path"`
	Commit    string `json:"commit"`
	Populated bool   `json:"populated"`           // its files are in the tree
	BaseTree  string `json:"base_tree,omitempty"` // of its files, where uncommitted changes in it are part of the base
}

// Warning describes a difference between the tree and the result. An omitted path stays in the result as it is in the
// base.
type Warning struct {
	Code    string `json:"code"`
	Path    string `json:"path"` // raw bytes, as hostile as any name in the tree
	Message string `json:"message"`
}

// Diff is what a run did to its tree.
type Diff struct {
	Patch      string       `json:"patch"`       // git format, binary, full object ids
	PatchBytes int64        `json:"patch_bytes"` // 0: no changes
	Files      []FileChange `json:"files"`       // by path
	Warnings   []Warning    `json:"warnings,omitempty"`
	Incomplete bool         `json:"incomplete,omitempty"` // changes were left out; Warnings say which
	BaseCommit string       `json:"base_commit,omitempty"`
	BaseTree   string       `json:"base_tree"`
	ResultTree string       `json:"result_tree"`
	History    *History     `json:"history,omitempty"`  // the agent's own commits, when it made some
	Branches   []Branch     `json:"branches,omitempty"` // other commits of the agent, which the result does not have
	Bundle     string       `json:"bundle,omitempty"`   // a git bundle with them

	Submodules []SubmoduleChange `json:"submodules,omitempty"` // the ones with changed files
}

// SubmoduleChange is what a run changed within a submodule. Its files are among those of the Diff. The result keeps the
// submodule at its commit.
type SubmoduleChange struct {
	Path       string `json:"path"`
	BaseCommit string `json:"base_commit"`
	ResultTree string `json:"result_tree"` // of its files
	Patch      string `json:"patch"`       // name of the file, next to that of the Diff, with its changes alone
}

// History is what the agent committed itself, on the branch that it left
// checked out.
type History struct {
	Commit  string `json:"commit"`  // the last one
	Commits int    `json:"commits"` // above the base
}

// Branch is commits of the agent that are not part of the result: on a branch that it did not leave checked out, below
// another reference, in a stash, in a linked working tree, or in a log alone.
type Branch struct {
	Name    string `json:"name"`    // of the branch; refs/…; stash@{N}; HEAD, HEAD@{N} or a short id for others
	Ref     string `json:"ref"`     // in the bundle
	Commit  string `json:"commit"`  // the last one
	Commits int    `json:"commits"` // that the user's repository does not have
	Files   int    `json:"files"`   // that they change
}

// FileChange is one path of a Diff.
type FileChange struct {
	Path    string `json:"path"`           // raw bytes, slash-separated
	From    string `json:"from,omitempty"` // the former path of a renamed file
	Status  string `json:"status"`         // added, modified, deleted, renamed, type_changed
	Mode    string `json:"mode,omitempty"` // git's six octal digits; empty when deleted
	OldMode string `json:"old_mode,omitempty"`
	Added   int    `json:"added"` // lines; 0 for binary files
	Deleted int    `json:"deleted"`
	Binary  bool   `json:"binary,omitempty"`
	Earlier bool   `json:"earlier,omitempty"` // the run that this one continues made it, and this one left it so
}

// Changed says how much of the file was changed, and its mode if that was: "+3 −1, mode 644 → 755".
func (f FileChange) Changed() string {
	text := fmt.Sprintf("+%d −%d", f.Added, f.Deleted)
	if f.Binary {
		text = "binary"
	}
	if f.Mode != f.OldMode && f.Mode != "" && f.OldMode != "" {
		text += fmt.Sprintf(", mode %s → %s", strings.TrimPrefix(f.OldMode, "100"), strings.TrimPrefix(f.Mode, "100"))
	}
	return text
}
