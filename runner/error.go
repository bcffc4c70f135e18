package runner

import (
	"errors"
	"strings"
	"syscall"

	"holon/internal/platform"
	"holon/internal/visible"
	"holon/responses"
	"holon/runner/workspace/git"
	"holon/skills"
	"holon/state"
)

// Code classifies an error of the pipeline itself.
type Code = state.Code

// The codes of Error.
const (
	CodeNotReady      Code = "agent_not_ready"
	codeNotConfined   Code = "not_confined" // Param is --accept-weaker
	CodeContainerGone Code = "container_gone"
	CodeAgentdRefused Code = "agentd_refused" // it could not work with the directories that it was given
	codeBadStream     Code = "bad_stream"
	CodeInterrupted   Code = "interrupted"
	CodeDeadline      Code = "deadline_exceeded"
	CodeNotStarted    Code = "not_started" // of a run that was killed before its turn was accepted
	CodeDiskFull      Code = responses.CodeDiskFull
	codeNeedsLinux    Code = "needs_linux"
	CodeUsage         Code = "invalid_option"
	CodeCredentials   Code = responses.CodeMissingCredentials
)

// NeedsLinuxHint is what to do where the system is not Linux.
const NeedsLinuxHint = "use --engine docker, or run holon on Linux; from here, the commands for agents work with a " +
	"daemon there: ssh -L $HOME/holon.sock:SOCKET MACHINE, and HOLON_SOCKET_PATH=$HOME/holon.sock"

// Error is an error of the pipeline; Param names the option at fault.
type Error = state.Error

// Describe returns what a person should read of err, whichever part it came
// from: one line of message, the option at fault, the remedy.
func Describe(err error) state.Failure {
	f := state.Failure{Code: "internal_error", Message: err.Error()}
	if e, ok := errors.AsType[*state.Error](err); ok {
		f = state.Failure{Code: string(e.Code), Message: e.Error(), Param: e.Param, Hint: e.Hint}
	} else if e, ok := errors.AsType[*git.Error](err); ok {
		f = state.Failure{Code: e.Code, Message: e.Message, Param: e.Param, Hint: e.Hint}
		if e.Err != nil {
			f.Message += ": " + e.Err.Error()
		}
	} else if e, ok := errors.AsType[*skills.InvalidSkill](err); ok {
		f = state.Failure{Code: string(e.Code), Message: e.Error(), Param: "--skill", Hint: e.Hint}
	} else if e, ok := errors.AsType[*responses.Error](err); ok {
		f = state.Failure{Code: e.Code, Message: e.Message, Param: e.Param, Hint: e.Hint}
	} else if errors.Is(err, ErrInterrupted) {
		f.Code = responses.CodeCancelled
	} else if errors.Is(err, ErrDeadline) {
		f.Code, f.Param, f.Hint = string(CodeDeadline), "--timeout", "raise --timeout"
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		f.Code, f.Param, f.Hint = string(CodeDiskFull), "HOLON_HOME",
			"free space on its disk, or set HOLON_HOME to a directory elsewhere"
	}
	if _, ok := errors.AsType[platform.NeedsLinux](err); ok {
		f.Code, f.Hint = string(codeNeedsLinux), NeedsLinuxHint
	}
	f.Message = visible.OneLine(f.Message, 2000)
	return f
}

// lastComplaint returns the last line of agentd's log that is not about its
// ordinary course, "" if there is none.
func lastComplaint(logs []byte) string {
	last := ""
	for line := range strings.Lines(string(logs)) {
		if line = visible.OneLine(line, 300); line != "" && !strings.Contains(line, " level=INFO ") &&
			!strings.Contains(line, " level=DEBUG ") {
			last = line
		}
	}
	return last
}

// CodeMCPConfig is the code of a list of MCP servers that agentd refused.
const CodeMCPConfig Code = "invalid_mcp_config"

// wrongFlag is the error behind a last line of agentd's log that says what is wrong with a file which the user gave,
// nil for any other line. path is the user's, of which agentd knows a copy.
func wrongFlag(line, path string) *Error {
	_, said, found := strings.Cut(line, "HOLON_MCP_CONFIG: ")
	if !found {
		return nil
	}
	message, hint, _ := strings.Cut(said, "; ")
	if rest, ok := strings.CutPrefix(message, "the file "); ok {
		message = visible.Name(path) + " " + rest
	} else {
		message = visible.Name(path) + ": " + message
	}
	return &Error{Code: CodeMCPConfig, Param: "--mcp-config", Message: message, Hint: hint}
}

// listOfMCPServers is what agentd calls the file, as it knows no path that a person has.
const listOfMCPServers = "the list of MCP servers"

// namingMCPConfig puts the user's name of that file into the remedy of a turn that agentd refused.
func namingMCPConfig(err error, path string) error {
	if e, ok := errors.AsType[*responses.Error](err); ok && path != "" {
		e.Hint = strings.ReplaceAll(e.Hint, listOfMCPServers, visible.Name(path))
	}
	return err
}
