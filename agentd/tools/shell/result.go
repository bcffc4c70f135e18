package shell

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/agentd/process"
	"holon/agentd/tools"
)

const (
	stdoutLog = "stdout.log"
	stderrLog = "stderr.log"
)

// Disposition says what became of a command.
type Disposition string

// Completed means that the command ran to its own end.
const Completed Disposition = "completed"

// Result is ExecCommand's canonical result (recovered types, 11.4). Previews
// are null where nothing was printed. An artifact is named by its index.
type Result struct {
	Disposition    Disposition      `json:"disposition"`
	ExitStatus     int              `json:"exit_status"` // 128+n after signal n
	Signal         int              `json:"signal,omitempty"`
	StdoutPreview  *string          `json:"stdout_preview"`
	StderrPreview  *string          `json:"stderr_preview"`
	Truncated      bool             `json:"truncated"`
	Artifacts      []tools.Artifact `json:"artifacts"`
	StdoutArtifact *int             `json:"stdout_artifact,omitempty"`
	StderrArtifact *int             `json:"stderr_artifact,omitempty"`
	Notes          []string         `json:"notes,omitempty"`
	Diagnostics    *Diagnostics     `json:"command_diagnostics,omitempty"`
}

// Diagnostics describe a command that is better written another way; absent for
// ordinary ones.
type Diagnostics struct {
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
	args   Args
	tokens int
	result process.Result
}

func (c complete) output(env tools.Env) tools.Output {
	switch {
	case c.result.TimedOut:
		limit := DefaultTimeout.Milliseconds()
		if c.args.TimeoutMS > 0 {
			limit = int64(c.args.TimeoutMS)
		}
		return tools.Fail(&tools.Error{
			Kind:    KindTimeout,
			Message: fmt.Sprintf("the command was ended after %d ms; everything it started is gone", limit),
			Details: c.details(env, map[string]any{"timeout_ms": limit}),
			RecoveryHint: "raise timeout_ms if it needs longer, make it do less, or make sure that it neither waits for input " +
				"nor stays in the foreground like a server",
		})
	case c.result.Canceled:
		return tools.Fail(&tools.Error{
			Kind: tools.KindCanceled, Message: "the command was cancelled with its turn; everything it started is gone",
			Details: c.details(env, map[string]any{}),
		})
	}
	return tools.Output{Summary: c.summary(), Result: c}
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
	d["cmd"] = tools.Clip(c.args.Cmd, 300)
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

// Project implements tools.Projector.
func (c complete) Project(_ tools.Policy, artifacts *tools.Artifacts) (any, error) {
	return c.project(artifacts), nil
}

func (c complete) project(artifacts *tools.Artifacts) Result {
	r := Result{Disposition: Completed, ExitStatus: c.result.ExitCode, Signal: int(c.result.Signal), Diagnostics: c.diagnostics()}
	stdout, stderr := newText(c.result.Stdout), newText(c.result.Stderr)
	budget := previewBytes(c.tokens)
	// Standard error is short and important as a rule; it may have a quarter, or
	// whatever the other leaves.
	errBudget := min(stderr.size(), max(budget/4, budget-stdout.size()))
	var cut bool
	r.StdoutPreview, cut = stdout.preview(budget - errBudget)
	r.StderrPreview, r.Truncated = stderr.preview(errBudget)
	r.Truncated = r.Truncated || cut
	r.StdoutArtifact = keep(artifacts, stdoutLog, c.result.Stdout)
	r.StderrArtifact = keep(artifacts, stderrLog, c.result.Stderr)
	r.Artifacts = artifacts.List()
	r.Notes = c.notes()
	return r
}

func keep(artifacts *tools.Artifacts, name string, c process.Capture) *int {
	if c.Logged == 0 {
		return nil
	}
	i := artifacts.Add(name)
	return &i
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
		switch {
		case s.LogErr != nil:
			notes = append(notes, fmt.Sprintf("%s: the log file ends after %d of %d bytes: %v", s.name, s.Logged, s.Total, s.LogErr))
		case s.Logged > 0 && s.Logged < s.Total:
			notes = append(notes, fmt.Sprintf("%s: the log file holds the first %d of %d bytes", s.name, s.Logged, s.Total))
		}
		if s.Cut {
			notes = append(notes, s.name+": still open after the command ended; what came later is lost")
		}
	}
	return notes
}

func (c complete) diagnostics() *Diagnostics {
	cmd := c.args.Cmd
	d := Diagnostics{
		CmdPreview: tools.Clip(cmd, 200), CmdCharCount: utf8.RuneCountInString(cmd), CmdEstimatedTokens: (len(cmd) + 3) / 4,
		ContainsHeredoc: strings.Contains(cmd, "<<") && !strings.Contains(cmd, "<<<"), ContainsInlineScript: inlineScript.MatchString(cmd),
		EffectiveMaxOutputTokens: c.tokens, OutputCharBudget: c.tokens * tools.BytesPerToken,
	}
	d.ExceedsSoftThreshold = d.CmdCharCount > softThreshold
	if !d.ContainsHeredoc && !d.ContainsInlineScript && !d.ExceedsSoftThreshold {
		return nil
	}
	return &d
}

// render is the textual receipt of the command family: the outcome first, then
// the output, then where the rest is.
func (r Result) render(summary string, policy tools.RenderPolicy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Process exited with code %d\n", r.ExitStatus)
	if r.Signal != 0 {
		fmt.Fprintf(&b, "(%s)\n", summary)
	}
	section := func(name string, preview *string) {
		if preview == nil {
			return
		}
		fmt.Fprintf(&b, "%s:\n%s", name, *preview)
		if !strings.HasSuffix(*preview, "\n") {
			b.WriteByte('\n')
		}
	}
	section("stdout", r.StdoutPreview)
	section("stderr", r.StderrPreview)
	if r.StdoutPreview == nil && r.StderrPreview == nil {
		b.WriteString("(no output)\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "Note: %s\n", n)
	}
	if r.Truncated {
		r.renderLog(&b, "stdout", r.StdoutArtifact, policy)
		r.renderLog(&b, "stderr", r.StderrArtifact, policy)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r Result) renderLog(b *strings.Builder, name string, index *int, policy tools.RenderPolicy) {
	if index != nil && *index >= 0 && *index < len(r.Artifacts) {
		fmt.Fprintf(b, "Full %s: %s\n", name, filepath.Join(policy.OutputDir, r.Artifacts[*index].Path))
	}
}
