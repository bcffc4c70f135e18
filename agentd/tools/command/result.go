package command

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/agentd/preview"
	"holon/agentd/process"
	"holon/agentd/tools"
	wire "holon/responses/tasks"
)

const (
	stdoutLog = "stdout.log"
	stderrLog = "stderr.log"
)

// disposition says what became of a command. It decides which of the three
// results follows; their fields are never mixed.
type disposition string

// The dispositions of ExecCommand.
const (
	completedRun   disposition = "completed"        // completedResult: it ran to its own end
	promotedToTask disposition = "promoted_to_task" // promotedResult: it still runs, as a task
	duplicateRun   disposition = "already_running"  // alreadyResult: a task runs the same command
)

// completedResult is the canonical result of a command that has ended (recovered types,
// 11.4). Previews are null where nothing was printed. An artifact is named by its
// index.
type completedResult struct {
	Disposition    disposition      `json:"disposition"`
	ExitStatus     int              `json:"exit_status"` // 128+n after signal n
	Signal         int              `json:"signal,omitempty"`
	StdoutPreview  *string          `json:"stdout_preview"` // with a terminal, of both streams
	StderrPreview  *string          `json:"stderr_preview"`
	Truncated      bool             `json:"truncated"`
	Artifacts      []tools.Artifact `json:"artifacts"`
	StdoutArtifact *int             `json:"stdout_artifact,omitempty"`
	StderrArtifact *int             `json:"stderr_artifact,omitempty"`
	Notes          []string         `json:"notes,omitempty"`
	Diagnostics    *diagnostics     `json:"command_diagnostics,omitempty"`
}

// promotedResult is the canonical result of a command that became a task.
type promotedResult struct {
	Disposition            disposition `json:"disposition"`
	TaskHandle             wire.Handle `json:"task_handle"`
	InitialOutputPreview   *string     `json:"initial_output_preview"`
	InitialOutputTruncated bool        `json:"initial_output_truncated"`
}

// alreadyResult is the canonical result of a command that a task runs already.
type alreadyResult struct {
	Disposition  disposition   `json:"disposition"`
	TaskHandle   wire.Handle   `json:"task_handle"`
	Command      *wire.Command `json:"command"`
	Summary      string        `json:"summary"`
	Instructions string        `json:"instructions"`
}

// diagnostics describe a command that is better written another way; absent for
// ordinary ones.
type diagnostics struct {
	CmdPreview               string `json:"cmd_preview"`
	CmdCharCount             int    `json:"cmd_char_count"`
	CmdEstimatedTokens       int    `json:"cmd_estimated_tokens"`
	ContainsHeredoc          bool   `json:"contains_heredoc"`
	ContainsInlineScript     bool   `json:"contains_inline_script"`
	ExceedsSoftThreshold     bool   `json:"exceeds_soft_threshold"`
	EffectiveMaxOutputTokens int    `json:"effective_max_output_tokens"`
	OutputCharBudget         int    `json:"output_char_budget"`
}

// softThreshold is the length, in characters, from which a command is a script.
const softThreshold = 4000

// errorTokens is the budget of previews inside an error's details, which are
// read as JSON and therefore short.
const errorTokens = 2000

var inlineScript = regexp.MustCompile(`\b(python[0-9.]*|node|ruby|perl|php|bash|sh)\s+-(c|e|r|ne|pe)\b`)

// complete is the full output of a command: everything the capture kept.
type complete struct {
	launch
	result process.Result
}

func (c complete) output(env tools.Env) tools.Output {
	if e := c.failure(env); e != nil {
		return tools.Fail(e)
	}
	return tools.Output{Summary: c.summary(), Result: c.project(env.Artifacts)}
}

// failure is the error of a command that did not end by itself, nil for others.
func (c complete) failure(env tools.Env) *tools.Error {
	switch {
	case c.result.TimedOut:
		limit := c.timeout.Milliseconds()
		return &tools.Error{
			Kind:    kindTimeout,
			Message: fmt.Sprintf("the command was ended after %d ms; everything it started is gone", limit),
			Details: c.details(env, map[string]any{"timeout_ms": limit}),
			RecoveryHint: "raise yield_time_ms if it needs longer, make it do less, or make sure that it neither " +
				"waits for input " +
				"nor stays in the foreground like a server",
		}
	case c.result.Canceled:
		return &tools.Error{
			Kind: tools.KindCanceled, Message: "the command was cancelled with its turn; everything it started is gone",
			Details: c.details(env, map[string]any{}),
		}
	}
	return nil
}

func (c complete) summary() string {
	if s := c.result.Signal; s != 0 {
		return fmt.Sprintf("command was killed by signal %d (%s)", int(s), unix.SignalName(s))
	}
	return fmt.Sprintf("command exited with status %d", c.result.ExitCode)
}

// details are the previews of a command that did not end by itself.
func (c complete) details(env tools.Env, d map[string]any) map[string]any {
	c.tokens = min(c.tokens, errorTokens)
	r := c.project(env.Artifacts)
	d["cmd"] = tools.Clip(c.Cmd, 300)
	d["stdout_preview"], d["stderr_preview"] = r.StdoutPreview, r.StderrPreview
	d["truncated"], d["artifacts"] = r.Truncated, r.Artifacts
	if r.StdoutArtifact != nil {
		d["stdout_artifact"] = *r.StdoutArtifact
	}
	if r.StderrArtifact != nil {
		d["stderr_artifact"] = *r.StderrArtifact
	}
	return d
}

func (c complete) project(artifacts *tools.Artifacts) completedResult {
	r := completedResult{Disposition: completedRun, ExitStatus: c.result.ExitCode, Signal: int(c.result.Signal),
		Diagnostics: c.diagnostics(), Artifacts: []tools.Artifact{}}
	r.StdoutPreview, r.StderrPreview, r.Truncated = preview.Streams(c.result.Stdout, c.result.Stderr,
		previewBytes(c.tokens))
	// The list is of this command alone, also within a batch.
	keep := func(name string, s process.Capture) *int {
		if s.Logged == 0 {
			return nil
		}
		at := artifacts.Add(name)
		r.Artifacts = append(r.Artifacts, artifacts.List()[at])
		return new(len(r.Artifacts) - 1)
	}
	r.StdoutArtifact = keep(c.log+stdoutLog, c.result.Stdout)
	r.StderrArtifact = keep(c.log+stderrLog, c.result.Stderr)
	r.Notes = c.notes()
	return r
}

// notes are facts that the numbers do not tell.
func (c complete) notes() (notes []string) {
	if n := c.result.Ended; n > 0 {
		notes = append(notes, fmt.Sprintf("%d process(es) that the command left running were ended", n))
	}
	if n := c.result.Survivors; n > 0 {
		notes = append(notes, fmt.Sprintf("%d process(es) of the command could not be ended", n))
	}
	for _, s := range []struct {
		name string
		process.Capture
	}{{"stdout", c.result.Stdout}, {"stderr", c.result.Stderr}} {
		if lacks := preview.Kept(s.name, s.Capture); lacks != "" && c.OutputPath != "" {
			notes = append(notes, lacks)
		}
		if s.Cut {
			notes = append(notes, s.name+": still open after the command ended; what came later is lost")
		}
	}
	return notes
}

func (c complete) diagnostics() *diagnostics {
	cmd := c.Cmd
	d := diagnostics{
		CmdPreview: tools.Clip(cmd, 200), CmdCharCount: utf8.RuneCountInString(cmd),
		CmdEstimatedTokens:       (len(cmd) + 3) / 4,
		ContainsHeredoc:          strings.Contains(cmd, "<<") && !strings.Contains(cmd, "<<<"),
		ContainsInlineScript:     inlineScript.MatchString(cmd),
		EffectiveMaxOutputTokens: c.tokens, OutputCharBudget: c.tokens * tools.BytesPerToken,
	}
	d.ExceedsSoftThreshold = d.CmdCharCount > softThreshold
	if !d.ContainsHeredoc && !d.ContainsInlineScript && !d.ExceedsSoftThreshold {
		return nil
	}
	return &d
}
