package turns

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Begun is the payload of tool.started.
type Begun struct {
	ToolName  string `json:"tool_name"`
	CallID    string `json:"call_id"` // the model's
	Host      string `json:"host"`    // server: it runs here; client: the caller runs it
	Kind      string `json:"kind,omitempty"`
	Arguments string `json:"safe_args"` // JSON text as the model wrote it, without known secrets, cut
	// Of arguments that are cut: that they are, a digest of all of them, and what has all of them, a file relative to
	// the turn's directory or, of a client's function, the item of the call. InputRef is "" where nothing could be
	// kept.
	Truncated bool   `json:"args_truncated,omitempty"`
	Digest    string `json:"args_digest,omitempty"`
	InputRef  string `json:"input_ref,omitempty"`
	// allow: the request offers the tool, and a call that is refused does not begin
	Policy string `json:"policy"`
}

// stepOf is the id of the step that a call of a tool is.
func stepOf(toolCallID string) string {
	return "step_" + toolCallID[strings.IndexByte(toolCallID, '_')+1:]
}

// TooLong reports whether an event cannot hold the arguments.
func (p Begun) TooLong() bool { return clip(p.Arguments, maxPreview) != p.Arguments }

// bounded returns p with its defaults, whose texts are cut.
func (p Begun) bounded() Begun {
	p.ToolName, p.CallID, p.Kind = clip(p.ToolName, maxName), clip(p.CallID, maxName), clip(p.Kind, maxName)
	if p.Truncated = p.TooLong(); p.Truncated {
		sum := sha256.Sum256([]byte(p.Arguments))
		p.Digest, p.InputRef = "sha256:"+hex.EncodeToString(sum[:]), clip(p.InputRef, maxName)
	} else {
		p.Digest, p.InputRef = "", ""
	}
	p.Arguments = clip(p.Arguments, maxPreview)
	p.Host, p.Policy = cmp.Or(p.Host, "server"), cmp.Or(p.Policy, "allow")
	return p
}

// ToolStarted opens the tool call with the given id.
func (s Scope) ToolStarted(toolCallID string, p Begun) RuntimeEvent {
	e := s.event(ToolStarted, StatusRunning, p.bounded())
	e.ToolCallID, e.StepID, e.SpanID = toolCallID, stepOf(toolCallID), s.Trace.Child(toolCallID).SpanID()
	return e
}

// Result is the payload of tool.result.
type Result struct {
	ToolName   string `json:"tool_name"`
	Summary    string `json:"summary"`              // one line for a person
	Preview    string `json:"preview,omitempty"`    // what the model was shown, or its beginning and end
	OutputRef  string `json:"output_ref,omitempty"` // file with the full output, relative to the turn's directory
	DurationMS int64  `json:"duration_ms"`
	ExitCode   *int   `json:"exit_code,omitempty"` // of a command
	Truncated  bool   `json:"truncated"`           // Preview shows less than there was
	// Canonical is the canonical result in its compact form; the stored response
	// has the whole one. Absent over MaxCanonical.
	Canonical json.RawMessage `json:"canonical,omitempty"`
}

// MaxCanonical bounds the canonical result within an event, in bytes.
const MaxCanonical = 4<<10 + 512

// MaxPreview bounds the text of a result within an event, in bytes.
const MaxPreview = 2 << 10

// ToolResult closes a tool call that worked. A command that exits non-zero
// worked too: its result says so.
func (s Scope) ToolResult(toolCallID string, p Result) RuntimeEvent {
	p.ToolName, p.Summary = clip(p.ToolName, maxName), clip(p.Summary, maxName)
	whole := p.Preview
	p.Preview, p.OutputRef = clip(whole, MaxPreview), clip(p.OutputRef, maxName)
	p.Truncated = p.Truncated || p.Preview != whole
	p.Canonical = withinBound(p.Canonical, MaxCanonical)
	e := s.event(ToolResult, StatusCompleted, p)
	e.ToolCallID, e.StepID, e.SpanID = toolCallID, stepOf(toolCallID), s.Trace.Child(toolCallID).SpanID()
	return e
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

// OutputTruncated says that the model is shown a part of what the tool call with the given id put out.
func (s Scope) OutputTruncated(toolCallID string, p Truncation) RuntimeEvent {
	p.OutputRef, p.Truncation = clip(p.OutputRef, maxName), "head_tail"
	e := s.event(OutputTruncated, "", p)
	e.ToolCallID, e.StepID = toolCallID, stepOf(toolCallID)
	return e
}

// ToolFailure is the payload of tool.failed.
type ToolFailure struct {
	ToolName string `json:"tool_name"`
	// invalid_input, permission_denied, sandbox_violation, not_found, timeout, cancelled, interrupted,
	// execution_error, unavailable
	FailureCategory string `json:"failure_category"`
	Kind            string `json:"kind,omitempty"` // the tool's own name for it
	Message         string `json:"message"`
	Retryable       bool   `json:"retryable"`
	RecoveryHint    string `json:"recovery_hint,omitempty"`
	OutputRef       string `json:"output_ref,omitempty"`
	DurationMS      int64  `json:"duration_ms"`

	Preview   string          `json:"preview,omitempty"`   // what the model was shown, or its beginning and end
	Canonical json.RawMessage `json:"canonical,omitempty"` // as in Result
}

// ToolFailed closes a tool call that did not work.
func (s Scope) ToolFailed(toolCallID string, p ToolFailure) RuntimeEvent {
	p.ToolName, p.FailureCategory = clip(p.ToolName, maxName), clip(p.FailureCategory, maxName)
	p.Message, p.RecoveryHint, p.OutputRef = clip(p.Message, maxMessage), clip(p.RecoveryHint, maxName),
		clip(p.OutputRef, maxName)
	p.Kind, p.Preview = clip(p.Kind, maxName), clip(p.Preview, maxFailurePreview)
	p.Canonical = withinBound(p.Canonical, maxFailure)
	e := s.event(ToolFailed, StatusFailed, p)
	e.ToolCallID, e.StepID, e.SpanID = toolCallID, stepOf(toolCallID), s.Trace.Child(toolCallID).SpanID()
	return e
}

// A failure has a long message, which its canonical result repeats.
const (
	maxFailurePreview = 1 << 10
	maxFailure        = 4 << 10
)

func withinBound(canonical json.RawMessage, limit int) json.RawMessage {
	if len(canonical) > limit {
		return nil
	}
	return canonical
}

// Notice is the payload of runtime.warning and runtime.error.
type Notice struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	Component    string `json:"component"`
	Recoverable  bool   `json:"recoverable"`
	FailurePhase string `json:"failure_phase,omitempty"` // startup, shutdown, runtime_turn
}

// Warning says that something is wrong which the turn survives.
func (s Scope) Warning(p Notice) RuntimeEvent { return s.notice(RuntimeWarning, p) }

// Error says that the runtime itself failed.
func (s Scope) Error(p Notice) RuntimeEvent { return s.notice(RuntimeError, p) }

func (s Scope) notice(class string, p Notice) RuntimeEvent {
	p.Code, p.Component = clip(p.Code, maxName), clip(p.Component, maxName)
	p.Message, p.FailurePhase = clip(p.Message, maxMessage), clip(p.FailurePhase, maxName)
	return s.event(class, "", p)
}

// Context is the payload of context.resolved: what a model is about to be told.
type Context struct {
	PreviousResponseID string   `json:"previous_response_id,omitempty"`
	Items              int      `json:"items"`         // items sent, history included
	Instructions       []string `json:"instructions"`  // names of the sources of the instructions, in order
	Tools              []string `json:"tools"`         // names of the tools offered
	Omissions          []string `json:"omissions"`     // what was left out, and why
	ActiveSkills       []string `json:"active_skills"` // skills that the session has in use: id and state
	Fingerprint        string   `json:"fingerprint,omitempty"`
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
	p.ActiveSkills, p.Fingerprint = clipList(p.ActiveSkills), clip(p.Fingerprint, maxName)
	return s.event(ContextResolved, "", p)
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
