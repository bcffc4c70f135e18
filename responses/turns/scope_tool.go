package turns

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Begun is the payload of tool.started.
type Begun struct {
	ToolName  string `json:"tool_name"`
	CallID    string `json:"call_id"` // the model's
	Host      string `json:"host"`    // server: it runs here; client: the caller runs it
	Kind      string `json:"kind,omitzero"`
	Arguments string `json:"safe_args" max:"3072"` // JSON text as the model wrote it, without known secrets, cut
	// Of arguments that are cut: that they are, a digest of all of them, and what has all of them, a file relative to
	// the turn's directory or, of a client's function, the item of the call. InputRef is "" where nothing could be
	// kept.
	Truncated bool   `json:"args_truncated,omitzero"`
	Digest    string `json:"args_digest,omitzero"`
	InputRef  string `json:"input_ref,omitzero"`
	// allow: the request offers the tool, and a call that is refused does not begin
	Policy string `json:"policy"`
}

// TooLong reports whether an event cannot hold the arguments.
func (p Begun) TooLong() bool { return bounded(p).Arguments != p.Arguments }

// completed returns p with its defaults, and with what follows from the length of its arguments.
func (p Begun) completed() Begun {
	if p.Truncated = p.TooLong(); p.Truncated {
		sum := sha256.Sum256([]byte(p.Arguments))
		p.Digest = "sha256:" + hex.EncodeToString(sum[:])
	} else {
		p.Digest, p.InputRef = "", ""
	}
	p.Host, p.Policy = cmp.Or(p.Host, "server"), cmp.Or(p.Policy, "allow")
	return p
}

// ToolStarted opens the tool call with the given id.
func (s Scope) ToolStarted(toolCallID string, p Begun) RuntimeEvent {
	return s.OfCall(ToolStarted, toolCallID, p.completed())
}

// Result is the payload of tool.result.
type Result struct {
	ToolName   string `json:"tool_name"`
	Summary    string `json:"summary"`                     // one line for a person
	Preview    string `json:"preview,omitzero" max:"2048"` // what the model was shown, or its beginning and end
	OutputRef  string `json:"output_ref,omitzero"`         // file with the full output, relative to the turn's directory
	DurationMS int64  `json:"duration_ms"`
	ExitCode   *int   `json:"exit_code,omitzero"` // of a command
	Truncated  bool   `json:"truncated"`          // Preview shows less than there was
	// Canonical is the canonical result in its compact form; the stored response
	// has the whole one. Absent where it is longer than its bound.
	Canonical json.RawMessage `json:"canonical,omitzero" max:"4608"`
}

// MaxPreview bounds the text of a result within an event, in bytes.
const MaxPreview = 2 << 10

// ToolResult closes a tool call that worked. A command that exits non-zero
// worked too: its result says so.
func (s Scope) ToolResult(toolCallID string, p Result) RuntimeEvent {
	p.Truncated = p.Truncated || clip(p.Preview, MaxPreview) != p.Preview
	return s.OfCall(ToolResult, toolCallID, p)
}

// OutputTruncated is the class of the fact that a model was shown a part of an output, which a file has whole.
const OutputTruncated = "output.truncated"

// Truncation is the payload of output.truncated.
type Truncation struct {
	OutputRef  string `json:"output_ref"` // the first file, relative to the turn's directory
	SizeBytes  int64  `json:"size_bytes"` // of all files
	KeptBytes  int64  `json:"kept_bytes"` // of what the model was shown
	Truncation string `json:"truncation"` // head_tail
}

// ToolFailure is the payload of tool.failed: the end of a call that did not work.
type ToolFailure struct {
	ToolName string `json:"tool_name"`
	// invalid_input, permission_denied, sandbox_violation, not_found, timeout, cancelled, interrupted,
	// execution_error, unavailable
	FailureCategory string `json:"failure_category"`
	Message         string `json:"message" max:"2048"`
	Retryable       bool   `json:"retryable"`
	OutputRef       string `json:"output_ref,omitzero"`
	DurationMS      int64  `json:"duration_ms"`

	Preview string     `json:"preview,omitzero" max:"1024"` // what the model was shown, or its beginning and end
	Error   *ToolError `json:"tool_error,omitzero"`         // of the canonical result; absent where the turn ended first
}

// ToolError is the error of a canonical result in its compact form (runtime specification, "Tool Error Envelope
// Contract").
type ToolError struct {
	Kind         string          `json:"kind"`
	Message      string          `json:"message" max:"2048"`
	Details      json.RawMessage `json:"details,omitzero" max:"1536"` // an object, absent where it is longer
	RecoveryHint string          `json:"recovery_hint,omitzero"`
	Retryable    bool            `json:"retryable"`
}

// Envelope is the error of the call. One that the end of its turn cut off has its category as kind.
func (f ToolFailure) Envelope() ToolError {
	if f.Error != nil {
		return *f.Error
	}
	return ToolError{Kind: f.FailureCategory, Message: f.Message, Retryable: f.Retryable}
}

// Notice is the payload of runtime.warning and runtime.error.
type Notice struct {
	Code         string `json:"code"`
	Message      string `json:"message" max:"2048"`
	Component    string `json:"component"`
	Recoverable  bool   `json:"recoverable"`
	FailurePhase string `json:"failure_phase,omitzero"` // startup, shutdown, runtime_turn
}

// Warning says that something is wrong which the turn survives.
func (s Scope) Warning(p Notice) RuntimeEvent { return s.Event(RuntimeWarning, p) }

// Context is the payload of context.resolved: what a model is about to be told.
type Context struct {
	PreviousResponseID string   `json:"previous_response_id,omitzero"`
	Items              int      `json:"items"`         // items sent, history included
	Instructions       []string `json:"instructions"`  // names of the sources of the instructions, in order
	Tools              []string `json:"tools"`         // names of the tools offered
	Omissions          []string `json:"omissions"`     // what was left out, and why
	Skills             []string `json:"skills"`        // ids of those that the turn may use
	ActiveSkills       []string `json:"active_skills"` // skills that the session has in use: id and state
	Fingerprint        string   `json:"fingerprint,omitzero"`
}

// Bounds of each list of a Context: how many names, and how long. What is over
// becomes one last entry that says how many are missing.
const (
	maxNames    = 24
	maxListName = 64
)

// ContextResolved says what the turn starts from.
func (s Scope) ContextResolved(p Context) RuntimeEvent {
	p.Instructions, p.Tools, p.Omissions = clipList(p.Instructions), clipList(p.Tools), clipList(p.Omissions)
	p.Skills, p.ActiveSkills = clipList(p.Skills), clipList(p.ActiveSkills)
	return s.Event(ContextResolved, p)
}

// clipList returns a copy of names within the bounds, never nil.
func clipList(names []string) []string {
	out := make([]string, 0, min(len(names), maxNames+1))
	for i, name := range names {
		if i == maxNames {
			return append(out, fmt.Sprintf("and %d more", len(names)-maxNames))
		}
		out = append(out, clip(name, maxListName))
	}
	return out
}

// SkillActivated is the class of the fact that a turn began to use a skill. The
// runtime specification calls it skill_activated; classes of our own carry our
// prefix.
const SkillActivated = "holon.skill.activated"

// Skill is the payload of holon.skill.activated.
type Skill struct {
	SkillID          string `json:"skill_id"` // scope/name
	Name             string `json:"name"`
	Scope            string `json:"scope"`                      // user, agent, workspace
	LoadReason       string `json:"load_reason"`                // read_skill_md, run_skill_script
	Path             string `json:"path" max:"1024"`            // the SKILL.md that was read, or the script that was run
	EntrypointPath   string `json:"entrypoint_path" max:"1024"` // the skill's SKILL.md
	ActivationSource string `json:"activation_source"`
	ActivationState  string `json:"activation_state"`
	Digest           string `json:"digest,omitzero"` // of the SKILL.md, "sha256:" and hex
}
