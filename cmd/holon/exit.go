package main

import (
	"errors"
	"fmt"
	"strings"

	"holon/internal/providers"
	"holon/internal/visible"
	"holon/responses"
	"holon/runner"
	"holon/runner/agent/scheduler"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/runner/credentials"
	"holon/runner/engine"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/skills"
	"holon/state"
	"holon/state/ledger"
)

// usageError is a mistake on the command line or in the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the program with a code after everything was said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// jsonError is an error that a command with --json reports as an object.
type jsonError struct{ error }

func (e jsonError) Unwrap() error { return e.error }

// report says what went wrong, on one line with the remedy, and returns the
// exit code (docs/reference/run.md, "Exit codes").
func report(err error, streams Streams) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	failure := describe(err)
	if _, ok := errors.AsType[jsonError](err); ok {
		_ = printJSON(streams, struct {
			Error state.Failure `json:"error"`
		}{failure}) // stdout is gone: the exit code still tells
	}
	fmt.Fprintln(streams.Err, "holon: "+streams.defuse(line(failure)))
	return exitCode(err)
}

func describe(err error) state.Failure {
	if usage, ok := errors.AsType[usageError](err); ok {
		if _, typed := errors.AsType[*runner.Error](err); !typed {
			return usage.failure()
		}
	}
	f := runner.Describe(err)
	if _, ok := errors.AsType[*git.Error](err); ok && !strings.HasPrefix(f.Param, "--") && f.Param != "RUN" {
		f.Param = "--workspace" // a path, which the message names
	}
	if flag, ok := flagsOfFields[f.Param]; ok {
		f.Param = flag
	}
	if rest, ok := strings.CutPrefix(f.Param, "providers."); ok { // as the gateway calls a provider's settings
		if name, ok := strings.CutSuffix(rest, ".base_url"); ok {
			f.Param = providers.Setting(name, "BASE_URL")
		} else if name, ok := strings.CutSuffix(rest, ".api_key"); ok {
			f.Param = providers.Setting(name, "API_KEY")
		}
	}
	return f
}

// flagsOfFields are the options by which a person sets what an engine or a
// store calls by other names.
var flagsOfFields = map[string]string{
	"image": "--image", "memory": "--memory", "cpus": "--cpus", "network": "--network", "env": "--env",
	"engine": "--engine", "run": "RUN", "disk": "HOLON_HOME",
	"agent_id": "AGENT", "agent": "AGENT", "token": "--token", "path": "FILE", "duration_ms": "--after",
	"interval_ms": "--every", "priority": "--priority", "template": "--template",
}

// failure takes the text apart, which reads "FIELD: what; remedy".
func (e usageError) failure() state.Failure {
	f := state.Failure{Code: "usage", Message: visible.OneLine(e.Error(), 1000)}
	if param, rest, ok := strings.Cut(f.Message, ": "); ok && !strings.Contains(param, " ") {
		f.Param, f.Message = param, rest
	}
	if i := strings.LastIndex(f.Message, "; "); i >= 0 {
		f.Message, f.Hint = f.Message[:i], f.Message[i+2:]
	}
	return f
}

// line is a failure as a person reads it: field, message, remedy.
func line(f state.Failure) string {
	var b strings.Builder
	if f.Param != "" && !strings.HasPrefix(f.Message, f.Param+":") {
		b.WriteString(visible.OneLine(f.Param, 200) + ": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString("; " + visible.OneLine(f.Hint, 500))
	}
	return b.String()
}

// exitCode is the one table from errors to exit codes for commands that end
// without a manifest; with one, the manifest's exit_code counts.
func exitCode(err error) int {
	if errors.Is(err, runner.ErrInterrupted) {
		return state.OutcomeInterrupted.ExitCode()
	}
	const usage = 2
	if _, ok := errors.AsType[usageError](err); ok {
		return usage
	}
	if e, ok := errors.AsType[*git.Error](err); ok {
		switch e.Code {
		case git.CodeNotADirectory, git.CodeBareRepository, git.CodeInvalidOption,
			landing.CodeNotARepository, landing.CodeNothingChanged:
			return usage
		case landing.CodePatchConflict, landing.CodeWouldOverwrite, landing.CodeInvalidPatch,
			landing.CodeBranchExists, landing.CodePathExists,
			landing.CodeCheckedOut, git.CodeUnsafeObjects, landing.CodeWorktreeInUse:
			return state.OutcomeFailure.ExitCode()
		}
		return state.OutcomeRefused.ExitCode()
	}
	if e, ok := errors.AsType[*state.Error](err); ok {
		switch e.Code {
		case settings.CodeInvalid, settings.CodeUnknownKey, credentials.CodeUnknown, credentials.CodeInvalidKey,
			modelaccess.CodeUnknownProvider, modelaccess.CodeInvalidReference:
			return usage
		case state.CodeInvalidRunID, state.CodeRunNotFound, state.CodeRunAmbiguous, state.CodeOutputUnusable,
			engine.CodeInvalidSpec:
			return usage
		case state.CodeInvalidAgent, control.CodeInvalidAccess, control.CodeInvalidToken, ledger.CodeNotFound,
			wire.CodeInvalidValue, wire.CodeMissingField, wire.CodeTooLarge,
			scheduler.CodeInvalidMessage, scheduler.CodeInvalidTimer, scheduler.CodeRunMismatch,
			scheduler.CodeKeyConflict:
			return usage
		case ledger.CodeExists:
			return state.OutcomeFailure.ExitCode()
		case engine.CodeResourceLimit:
			if e.Param != "disk" { // a limit that was asked for
				return usage
			}
		}
		return state.OutcomeRefused.ExitCode()
	}
	if _, ok := errors.AsType[*skills.InvalidSkill](err); ok {
		return usage
	}
	if e, ok := errors.AsType[*responses.Error](err); ok && e.Type == responses.TypeInvalidRequest &&
		e.Code != responses.CodeMissingCredentials {
		return usage
	}
	return state.OutcomeRefused.ExitCode()
}
