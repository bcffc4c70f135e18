// Package patch is the ApplyPatch tool: it changes files of the working tree by a patch in one grammar. A section about
// a file starts with a directive of the "*** Begin Patch" envelope or with the --- and +++ lines of a unified diff; the
// hunks that follow are the same in both.
//
// A hunk is found by its text, not by its line numbers: first exactly, then without regard to spaces at line ends, to
// indentation and to typographic punctuation. A hunk that fits in two places is refused; one that fits nowhere is
// answered with the lines that come nearest.
//
// The invariant: a call changes everything that its patch says or nothing at all, also when a step fails or the turn
// is cancelled, and never anything outside the working tree, behind a symbolic link, inside a .git directory or that
// is not a regular file. A process that is killed in the middle of a call leaves files that are each wholly old or
// wholly new; see commit. Calls of one agentd take turns.
//
// Files keep their mode, owner, line endings, byte order mark and lack of a final newline where the patch does not say
// otherwise. Hard links, extended attributes and setuid bits are not kept, because files are replaced, not rewritten.
// The package makes no promise against programs that change the same files at the same moment, except to notice where
// it can and to follow no link.
package patch

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/agentd/tools"
	"holon/responses/turns"
)

// name is the tool's public name.
const name = "ApplyPatch"

// Kinds of errors of this tool, in addition to those of package tools.
const (
	kindSyntax     = "invalid_patch"
	kindEmpty      = "empty_patch"
	kindMismatch   = "patch_does_not_apply"
	kindAmbiguous  = "patch_is_ambiguous"
	kindApplied    = "patch_already_applied"
	kindNoChange   = "patch_changes_nothing"
	kindMissing    = "file_not_found"
	kindExists     = "file_exists"
	kindUnsafePath = "unsafe_path"
	kindBinary     = "binary_not_supported"
	kindTooLarge   = "too_large"
	kindWrite      = "write_failed"
)

// Bounds on what a call may ask for.
const (
	maxPatchBytes = 4 << 20
	maxFileBytes  = 16 << 20
	maxTotalBytes = 256 << 20 // of all files a patch concerns
	maxFiles      = 200
	maxHunks      = 20_000
	maxNotes      = 100
)

// action is how a file changed.
type action string

// The actions of a result.
const (
	actionAdd    action = "add"
	actionModify action = "modify"
	actionDelete action = "delete"
	actionMove   action = "move"
)

// changedFile is one file that a patch has changed.
type changedFile struct {
	Action   action `json:"action"`
	Path     string `json:"path"`
	FromPath string `json:"from_path,omitempty"`
}

// metadata is a statement of a patch that has no effect.
type metadata struct {
	Path  string `json:"path"`
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// diagnostic is something in a patch that was tolerated.
type diagnostic struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// result is ApplyPatch's canonical result (recovered types, 11.4).
type result struct {
	ChangedFiles     []changedFile `json:"changed_files"`
	ChangedPaths     []string      `json:"changed_paths"`
	ChangedFileCount int           `json:"changed_file_count"`
	IgnoredMetadata  []metadata    `json:"ignored_metadata"`
	Diagnostics      []diagnostic  `json:"diagnostics"`
	SummaryText      string        `json:"summary_text"`
	Truncated        bool          `json:"truncated,omitempty"` // lists are not whole any more
}

// arguments are the arguments of ApplyPatch.
type arguments struct {
	Patch string `json:"patch" jsonschema:"a unified diff with paths relative to the root of the working tree"`
}

const description = "Changes files of the working tree by a unified diff: --- a/PATH, +++ b/PATH and hunks that " +
	"start with @@. " +
	"Use /dev/null as the old path to create a file and as the new path to delete one; two different paths rename it. " +
	"Files are not copied, and modes stay. The form that starts with \"*** Begin Patch\" is understood too.\n" +
	"Hunks are found by their text, so give three unchanged lines before and after each change, exactly as they " +
	"are in the file; line numbers and counts need not be right. All files are changed or none."

// tool is ApplyPatch.
type tool struct {
	Family
	def  tools.Definition
	turn sync.Mutex // of the call that reads and writes files
}

// New returns the tool.
func New() (*tool, error) {
	schema, err := tools.Derive[arguments](map[string]func(*jsonschema.Schema){
		"patch": func(s *jsonschema.Schema) { s.MinLength = jsonschema.Ptr(1) },
	})
	if err != nil {
		return nil, err
	}
	return &tool{def: tools.Definition{Name: name, Description: description, Parameters: schema, Freeform: freeform(),
		Traits: turns.Writes(true, turns.InterruptCancel, "filesystem_read", "filesystem_write")}}, nil
}

func (t *tool) Definition() tools.Definition { return t.def }

func (t *tool) Run(ctx context.Context, env tools.Env, call tools.Call) tools.Output {
	args, bad := tools.Decode[arguments](call)
	if bad != nil {
		return tools.Fail(bad)
	}
	var res result
	t.turn.Lock()
	defer t.turn.Unlock()
	env.Users.Do(func() { res, bad = apply(ctx, env.WorkDir, args.Patch) })
	if bad != nil {
		return tools.Fail(bad)
	}
	return tools.Output{Summary: res.SummaryText, Result: res}
}

// visible quotes a path that would not stay on its line or would be shown as something else.
func visible(path string) string {
	if q := fmt.Sprintf("%q", path); q[1:len(q)-1] != path {
		return q
	}
	return path
}

// refused returns an error about the file at a path.
func refused(kind, path, message, hint string) *tools.Error {
	return &tools.Error{Kind: kind, Message: message, Details: map[string]any{"path": path}, RecoveryHint: hint}
}

// refused returns an error about a file that names its part of the patch.
func (f *filePatch) refused(kind, path, message, hint string) *tools.Error {
	e := refused(kind, path, message, hint)
	e.Details["patch_line"] = f.line
	return e
}

func syntax(line int, message, hint string) *tools.Error {
	return &tools.Error{Kind: kindSyntax, Message: fmt.Sprintf("patch line %d: %s", line, message),
		Details: map[string]any{"field": "patch", "patch_line": line}, RecoveryHint: hint}
}

func binary(line int) *tools.Error {
	e := syntax(line, "binary changes cannot be applied", "write binary files with a command")
	e.Kind = kindBinary
	return e
}

func tooLarge(format string, n, limit int) *tools.Error {
	return &tools.Error{Kind: kindTooLarge, Message: fmt.Sprintf(format, n, limit),
		Details:      map[string]any{"field": "patch"},
		RecoveryHint: "split the patch, or make the change with a command"}
}
