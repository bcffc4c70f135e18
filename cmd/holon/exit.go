package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/providers"
	"holon/internal/visible"
	"holon/responses"
	"holon/runner"
	"holon/runner/agent/memorysearch"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/trees"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/runner/credentials"
	"holon/runner/egress"
	"holon/runner/engine"
	"holon/runner/modelaccess"
	"holon/runner/service"
	"holon/runner/settings"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/skills"
	"holon/state"
	"holon/state/ledger"
)

// usage names which argument is wrong, how, and what to do about it.
func usage(param, message, hint string) error {
	return &state.Error{Code: settings.CodeInvalid, Param: param, Message: message, Hint: hint}
}

// exitError ends the program with a code after everything was reported.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// inJSON reports whether a command line asks for JSON: also one that is wrong in another place, so that what reads the
// output of a command finds its error there.
func inJSON(args []string) bool {
	for i, arg := range args {
		if arg == "--output-format" && i+1 < len(args) {
			arg += "=" + args[i+1]
		}
		switch arg {
		case "--":
			return false
		case "--json", "--output-format=" + formatJSON, "--output-format=" + formatStream:
			return true
		}
	}
	return false
}

// report prints what went wrong, on one line with the remedy, as JSON also where a program reads it, and returns the
// exit code (docs/reference/run.md, "Exit codes").
func report(err error, streams Streams, asJSON bool) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if errors.Is(err, errReaderGone) {
		return exitReaderGone
	}
	if errors.Is(err, runner.ErrInterrupted) && streams.watches() {
		return exitCode(err) // nothing was stopped
	}
	failure := describe(err)
	if asJSON {
		var shown struct {
			Error struct {
				state.Failure
				Paths []string `json:"paths,omitempty"` // all files concerned
			} `json:"error"`
		}
		shown.Error.Failure = failure
		if e, ok := errors.AsType[*git.Error](err); ok {
			shown.Error.Paths = e.Paths
		}
		_ = printJSON(streams, shown) // stdout is gone: the exit code is left
	}
	streams.sayFailure(failure)
	return exitCode(err)
}

// sayFailure prints what went wrong: on one line, which a terminal shows wrapped at words.
func (s Streams) sayFailure(f state.Failure) {
	s.say("holon: " + s.defuse(line(f)))
}

func describe(err error) state.Failure {
	where, _ := errors.AsType[*settingError](err)
	f := runner.Describe(err)
	if e, ok := errors.AsType[*git.Error](err); ok && !strings.HasPrefix(f.Param, "--") && f.Param != "RUN" {
		f.Param = "workspace" // it is a path, which the message names
		switch e.Code {
		case git.CodeNotADirectory:
			f.Param = "--workspace"
		case git.CodeGitMissing:
			f.Param = "PATH"
		}
	}
	if flag, ok := flagsOfFields[f.Param]; ok {
		f.Param = flag
	}
	where.name(&f)
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
	"agent_id": "AGENT", "agent": "AGENT", "token": "--token", "path": "FILE",
	"message": "MESSAGE", "timer": "TIMER", "shell": "--shell",
	"work_item_id": "ITEM", "workspace_id": "WORKSPACE", "objective": "OBJECTIVE", "task_id": "TASK",
	"cmd": "COMMAND", "workdir": "--workdir", "binding_id": "NAME",
	"notification_id": "ID", "delivery_callback_url": "--url",
	"operator_actor_id": "--actor", "provider": "--provider", "delivery_auth.bearer_token": "--bearer",
	"delivery_auth.signing_secret": "--secret", "signature": "--signature", "secret": "--secret-file",
	"external_trigger_id": "--id",
	"summary":             "--summary", "idempotency_key": "--key", wire.HeaderIdempotencyKey: "--key",
	"reasoning_effort": "--reasoning-effort", "priority": "--priority", "template": "--template",
}

// maxHint bounds a remedy, in bytes: it is a command or names a path, and is of no use when it is cut.
const maxHint = 64 << 10

// line is a failure as a person reads it: field, message, remedy.
func line(f state.Failure) string {
	var b strings.Builder
	if f.Param != "" && !strings.HasPrefix(f.Message, f.Param+":") {
		b.WriteString(visible.OneLine(f.Param, 200) + ": ")
	}
	b.WriteString(visible.WithRemedy(f.Message, visible.OneLine(f.Hint, maxHint)))
	return b.String()
}

// Exit codes of commands that end without a manifest; with one, the manifest's exit_code counts.
const (
	exitUsage      = 2
	exitReaderGone = 128 + int(syscall.SIGPIPE) // as of a program that the signal ends
)

var (
	exitFailure = state.OutcomeFailure.ExitCode()
	exitRefused = state.OutcomeRefused.ExitCode()
)

// exitCodes is the one table from codes of errors to exit codes. Its keys have the type that the code has in its error:
// git.Error has text, state.Error has state.Code. Codes that are not in it exit with exitRefused.
var exitCodes = map[any]int{
	git.CodeNotADirectory: exitUsage, git.CodeBareRepository: exitUsage, git.CodeInvalidOption: exitUsage,
	landing.CodeNotARepository: exitUsage, landing.CodeNothingChanged: exitUsage, landing.CodeNoSuchBranch: exitUsage,
	landing.CodePatchConflict: exitFailure, landing.CodeWouldOverwrite: exitFailure,
	landing.CodeInvalidPatch: exitFailure, landing.CodeBranchExists: exitFailure, landing.CodePathExists: exitFailure,
	landing.CodeCheckedOut: exitFailure, git.CodeUnsafeObjects: exitFailure, landing.CodeWorktreeInUse: exitFailure,

	settings.CodeInvalid: exitUsage, settings.CodeUnknownKey: exitUsage, egress.CodeInvalidHost: exitUsage,
	egress.CodeInvalidPrivateHost: exitUsage, service.CodeInvalid: exitUsage,
	credentials.CodeUnknown: exitUsage, credentials.CodeInvalidKey: exitUsage,
	modelaccess.CodeUnknownProvider: exitUsage, modelaccess.CodeInvalidReference: exitUsage,
	modelaccess.CodeNoScenario:                exitUsage,
	state.Code(responses.CodeScenarioInvalid): exitUsage, runner.CodeMCPConfig: exitUsage,
	state.CodeInvalidRunID: exitUsage, state.CodeRunNotFound: exitUsage, state.CodeRunAmbiguous: exitUsage,
	state.CodeOutputUnusable: exitUsage, state.CodeHomeUnusable: exitUsage, engine.CodeInvalidSpec: exitUsage,
	state.CodeInvalidAgent: exitUsage, control.CodeInvalidAccess: exitUsage, control.CodeInvalidToken: exitUsage,
	wire.CodeInvalidValue: exitUsage, wire.CodeMissingField: exitUsage, wire.CodeTooLarge: exitUsage,
	memorysearch.CodeInvalidQuery: exitUsage, scheduler.CodeInvalidWork: exitUsage, ledger.CodeInvalidTask: exitUsage,
	scheduler.CodeInvalidMessage: exitUsage, scheduler.CodeInvalidTimer: exitUsage,
	scheduler.CodeInvalidBinding: exitUsage,
	scheduler.CodeRunMismatch:    exitUsage, scheduler.CodeKeyConflict: exitUsage, ledger.CodeNotFound: exitUsage,
	scheduler.CodeInvalidWorkspace: exitUsage, state.Code(git.CodeNotADirectory): exitUsage,
	state.Code(git.CodeBareRepository): exitUsage, state.Code(landing.CodeNotARepository): exitUsage,
	state.Code(landing.CodeNothingChanged): exitUsage, state.Code(landing.CodePatchConflict): exitFailure,
	state.Code(landing.CodeWouldOverwrite): exitFailure, state.Code(landing.CodeBranchExists): exitFailure,
	state.Code(landing.CodePathExists): exitFailure, trees.CodeConflict: exitFailure,
	state.Code("session_not_found"): exitUsage, state.Code("session_conflict"): exitUsage,
	state.Code("no_workspace"): exitUsage, state.Code("tree_not_kept"): exitFailure,
	ledger.CodeExists: exitFailure, codeOutput: exitFailure, engine.CodeResourceLimit: exitUsage,
}

func exitCode(err error) int {
	if errors.Is(err, runner.ErrInterrupted) {
		return state.OutcomeCancelled.ExitCode()
	}
	var code any
	if e, ok := errors.AsType[*git.Error](err); ok {
		code = e.Code
	} else if e, ok := errors.AsType[*state.Error](err); ok {
		code = e.Code
		if e.Code == engine.CodeResourceLimit && e.Param == "disk" {
			return exitRefused // the disk is full, which is not a limit that was asked for
		}
	} else if _, ok := errors.AsType[*skills.InvalidSkill](err); ok {
		return exitUsage
	} else if e, ok := errors.AsType[*responses.Error](err); ok && e.Type == responses.TypeInvalidRequest &&
		e.Code != responses.CodeMissingCredentials {
		return exitUsage
	}
	return cmp.Or(exitCodes[code], exitRefused)
}

func checkRange(flag string, n, min, max int) error {
	if n < min || n > max {
		return usage(flag, fmt.Sprintf("%d is out of range", n), fmt.Sprintf("use %d to %d", min, max))
	}
	return nil
}

func notAModel(param, ref string) error {
	return usage(param, fmt.Sprintf("%q is not a model reference", visible.OneLine(ref, 100)),
		"write provider/name, for example "+settings.DefaultModel)
}

func seeHelp(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }

// exclusive refuses flags of which a command takes one (cobra's MarkFlagsMutuallyExclusive) as all our errors do.
func exclusive(cmd *cobra.Command, _ []string) (err error) {
	const group = "cobra_annotation_mutually_exclusive" // cobra's, with the names of the group
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, names := range f.Annotations[group] {
			for _, other := range strings.Fields(names) {
				if other != f.Name && cmd.Flags().Changed(other) && err == nil {
					err = usage("--"+f.Name, "cannot be combined with --"+other, "leave one of them out")
				}
			}
		}
	})
	return err
}

// settingError is an error of a command that names a setting by where it was set.
type settingError struct {
	error
	loaded *settings.Loaded
	docker string // DOCKER_HOST
}

// Unwrap returns the error itself.
func (e *settingError) Unwrap() error { return e.error }

// named makes an error that is about a flag name the variable or the file instead, where the value came from there.
func (c *configured) named(h *host, err error) error {
	if err == nil || c.Loaded == nil {
		return err
	}
	return &settingError{err, c.Loaded, h.DockerHost}
}

// name names in a failure what a person has to look at. A nil e knows nothing of settings.
func (e *settingError) name(f *state.Failure) {
	if e == nil {
		return
	}
	if f.Code == string(engine.CodeUnreachable) && e.docker != "" {
		f.Param = "DOCKER_HOST"
		f.Hint = strings.Replace(f.Hint, "start Docker, set DOCKER_HOST", "start the engine there, name another", 1)
		return
	}
	option, key := f.Param, settingOf(f.Param)
	switch origin := e.loaded.Origin(key); origin.Layer {
	case settings.LayerEnv:
		f.Param = origin.Name
		f.Hint = strings.Replace(f.Hint, "raise it with holon config set "+key, "raise "+origin.Name, 1)
		f.Hint = strings.Replace(f.Hint, "raise "+option, "raise "+origin.Name, 1)
	case settings.LayerUser, settings.LayerProject:
		f.Param = origin.Name + ": " + key
		f.Hint = strings.Replace(f.Hint, "raise "+option, "raise it there", 1)
	}
}

// settingOf is the key that files have for what an error names: a flag, or a key without a flag; "" for anything else.
func settingOf(param string) string {
	for _, f := range flagKeys {
		if "--"+f.flag == param {
			return f.key
		}
	}
	if strings.HasPrefix(param, "runtime.") || param == "private_hosts" {
		return param
	}
	return ""
}
