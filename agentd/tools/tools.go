// Package tools runs the tool calls of a model and returns two forms of every outcome (RFC "Tool Result Envelope"): a
// canonical structured result, which is recorded, and a bounded text derived from it, which the model reads.
//
// A call passes through four steps: arguments are checked against the schema that the model was sent, the tool produces
// a typed output with large payloads kept as files, the output is put into the canonical envelope, and the envelope is
// rendered. The invariant: every call has exactly one outcome, also after malformed arguments or a
// panic of the tool, and the same output gives the same two forms.
//
// The package makes no promise about concurrent calls; a tool that does not support them returns an error.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"holon/agentd/privilege"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// Definition is what a model gets of a tool.
type Definition struct {
	Name        string // ^[A-Za-z0-9_-]{1,64}$
	Description string
	Parameters  json.RawMessage // JSON Schema of a closed object; see Derive
	// Foreign says that the schema is another party's, which checks the arguments
	// itself: it may be any schema of an object, and only that a call has an object
	// is checked here.
	Foreign bool
	// Apart names a list argument whose elements the tool checks itself, with a Checker: one that does not fit is that
	// element's failure and not the call's. "" for none.
	Apart string
	// Freeform is the tool's other form, for transports that can offer it; nil
	// where there is only the one in JSON.
	Freeform *Grammar
	Owner    string       // as in turns.Offered; "" is OwnerAgentd
	Traits   turns.Traits // of its calls
}

// Grammar lets a model write one argument as plain text, without the quoting of
// JSON. A transport that offers it hands the call on in the JSON form: an object
// whose only member is Argument.
type Grammar struct {
	Argument    string // name of the string argument that the text becomes
	Description string // for the model in the place of the Definition's
	Syntax      string // of Definition: "lark" or "regex"
	Definition  string
}

// Call is one request of a model. All of it is untrusted.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage // a JSON object; empty counts as {}
	Round     Round           // of the model, in which it was made
}

// Round is the text and the calls of the model in which a call was made.
type Round struct {
	Text  string // "": nothing
	Calls []Call // that are run, in their order, this one included; they have no Round
}

// Env is where a call runs.
type Env struct {
	TurnID    string
	SessionID string   // owner of the tasks that calls start
	ThreadID  string   // its facts record the calls
	WorkDir   string   // absolute root of the working tree
	LogDir    string   // the turn's tools/ directory, which exists; empty keeps no files
	Environ   []string // the environment of commands, complete
	Policy    Policy
	Images    bool             // the model can be shown pictures
	Users     *privilege.Users // owners of the working tree; nil for the user of this process
	Secrets   *redact.Set      // taken out of what calls leave in files; nil for none
	Disk      disk             // what the turn's files may still take; nil for no bound
	Processes processes        // records the processes that calls start; nil for calls that nothing records
	// Artifacts receives what is too large for the result. The registry sets it.
	Artifacts *Artifacts
}

// processes records the processes of a call. It is called by the goroutine that runs the call.
type processes interface {
	Started(id string, p turns.Process)
	Written(id string, p turns.Written)
	Ended(id string, p turns.ProcessEnd)
}

// ForCall returns env with the place for what the call with the id leaves. The id may be anything.
func (env Env) ForCall(id string) Env {
	env.Artifacts = newArtifacts(env.LogDir, id, env.Disk)
	env.Artifacts.secrets = env.Secrets
	return env
}

// disk is a number of bytes that the files of a turn share.
type disk interface {
	Take(n int64) int64 // takes up to n bytes and returns how many it got
	Give(n int64)       // gives back what was taken and not used
}

// Local returns the path of a file or directory relative to the working tree that it lies in, as far as its text tells.
func Local(tree, path string) (rel string, ok bool) {
	rel = filepath.Clean(path)
	if filepath.IsAbs(rel) {
		if r, err := filepath.Rel(tree, rel); err == nil {
			rel = r
		}
	}
	return rel, filepath.IsLocal(rel)
}

// Escapes reports whether os.Root refused to follow a path. Its error for that is not exported, but every other one
// comes from the system.
func Escapes(err error) bool {
	_, system := errors.AsType[unix.Errno](err)
	return !system
}

// Policy bounds what a call may put in front of the model. Zero fields mean the
// defaults of the runtime specification ("Repo Inspection Contract").
type Policy struct {
	OutputTokens    int // unless a call wishes otherwise; default 8,000
	MaxOutputTokens int // the upper bound for every call; default 64,000
}

// BytesPerToken is the estimate by which budgets of tokens become bytes.
const BytesPerToken = 4

// Budget returns the number of tokens granted for a wish; 0 means the default.
func (p Policy) Budget(wish int) int {
	def, limit := p.OutputTokens, p.MaxOutputTokens
	if limit <= 0 {
		limit = 64_000
	}
	if def <= 0 {
		def = 8_000
	}
	if wish <= 0 {
		wish = def
	}
	return min(wish, limit)
}

// Tool is one ability. Definition is constant. Run honours ctx, returns when
// nothing of the call is left, and never fails in Go's sense: a failure is an
// Output with an Error. Arguments have passed the tool's schema.
type Tool interface {
	Definition() Definition
	Run(ctx context.Context, env Env, call Call) Output
}

// renderer is implemented by tools whose results read better as something else
// than JSON. It is a pure function of its arguments and sees successes only.
type renderer interface {
	Render(canonical Result, policy RenderPolicy) string
}

// RenderPolicy is what a rendering may depend on, in addition to the canonical result.
type RenderPolicy struct {
	OutputDir string // absolute; artifact paths are relative to it
	MaxBytes  int    // hard bound on the rendered text; 0 means the policy maximum
}

// status is the high-level outcome of a call.
type status string

// The statuses of the envelope.
const (
	statusSuccess status = "success"
	statusError   status = "error"
)

// Output is the typed output of a tool. Exactly one of Result and Error is set.
type Output struct {
	Summary string // one line; an Error's message when empty
	Result  any    // encodes as a JSON object, bounded by Env.Policy; what is larger is in Env.Artifacts
	Error   *Error
	Images  []Image // what a successful call shows the model in addition to the text
	// Directive is what the turn does after a successful call.
	Directive responses.Directive
}

// Image is a picture for the model.
type Image struct {
	MediaType string // image/png, image/jpeg, image/gif or image/webp
	Detail    string // low, high or auto
	Data      []byte
}

// Fail returns the output of a call that failed with e.
func Fail(e *Error) Output { return Output{Summary: e.Message, Error: e} }

// Outcome is both forms of a call's result and the facts about it.
type Outcome struct {
	Canonical Result
	Rendered  string
	Images    []Image
	Artifacts []Artifact
	KeptBytes int64               // of the artifacts
	Directive responses.Directive // as in Output
	Duration  time.Duration
	// Fault is what went wrong in the runtime itself, in full and for the log
	// only; the model sees an internal_error.
	Fault error
}
