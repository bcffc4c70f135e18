package runner

import (
	"errors"
	"strings"
	"unicode"

	"holon/responses"
	"holon/runner/workspace"
	"holon/skills"
	"holon/state"
)

// Code classifies an error of the pipeline itself.
type Code = state.Code

// The codes of Error.
const (
	CodeNotReady      Code = "agent_not_ready"
	CodeContainerGone Code = "container_gone"
	CodeBadStream     Code = "bad_stream"
	CodeUsage         Code = "invalid_option"
	CodeCredentials   Code = responses.CodeMissingCredentials
)

// Error is an error of the pipeline; Param names the option at fault.
type Error = state.Error

// Describe returns what a person should read of err, whichever part it came
// from: one line of message, the option at fault, the remedy.
func Describe(err error) state.Failure {
	f := state.Failure{Code: "internal_error", Message: err.Error()}
	if e, ok := errors.AsType[*state.Error](err); ok {
		f = state.Failure{Code: string(e.Code), Message: e.Error(), Param: e.Param, Hint: e.Hint}
	} else if e, ok := errors.AsType[*workspace.Error](err); ok {
		f = state.Failure{Code: e.Code, Message: e.Message, Param: e.Param, Hint: e.Hint}
		if e.Err != nil {
			f.Message += ": " + e.Err.Error()
		}
	} else if e, ok := errors.AsType[*skills.Problem](err); ok {
		f = state.Failure{Code: string(e.Code), Message: e.Error(), Param: "--skill"}
	} else if e, ok := errors.AsType[*responses.Error](err); ok {
		f = state.Failure{Code: e.Code, Message: e.Message, Param: e.Param, Hint: e.Hint}
	}
	f.Message = OneLine(f.Message, 2000)
	return f
}

// OneLine makes text from anywhere fit to be printed: one line, no control
// characters or terminal escapes, at most limit bytes.
func OneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// lastLine returns the last line of a program's output that is not empty.
func lastLine(logs []byte) string {
	lines := strings.Split(strings.TrimSpace(string(logs)), "\n")
	return OneLine(lines[len(lines)-1], 300)
}
