package oneshot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/turnfiles"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// Bounds of a check: how long it may take at most, which is the longest that a command is waited for, what it may leave
// of output, and what of that stands in the manifest.
const (
	MaxCheckTimeout = time.Hour
	maxCheckOutput  = 64 << 20
	maxShownOutput  = 4 << 10
)

// What a run with a check, or with attempts, keeps in its own directory while it goes on.
const (
	baseDir   = "base"       // workspace.Source.Pin, and
	checkFile = "check.yaml" // checkScenario
)

// Codes of a run that completed and did not pass its check.
const (
	CodeCheckFailed runner.Code = "check_failed"
	// codeCheckChanged: it would have passed, but with files that its command names as the run changed them.
	codeCheckChanged runner.Code = "check_changed"
)

// Check is a command that decides whether the result of a run is good. It runs where no agent was: in a new container
// without a model and without a network, in a new tree that has the base and the patch of the run, but for the files
// that decide what the check looks at, which are those of the base. Like a command of an agent it is run by agentd, as
// a run of its own whose model is a scenario: so it has the limits of runs, their record, two users and recovery.
type Check struct {
	Command string
	Paths   *Paths
	Timeout time.Duration
}

// checkScenario runs the command, which is the prompt.
const checkScenario = `rounds:
  - calls: [{tool: ExecCommand, id: check, arguments: {cmd: "{{last_user}}", yield_time_ms: 3600000}}]
  - text: done
`

// pin makes the base of a run with a check the same for both, unless it is that of all attempts already.
func (o *Run) pin(ctx context.Context, run *files.Run, source *workspace.Source) error {
	if o.Check == nil || o.base != "" {
		return nil
	}
	o.base = filepath.Join(run.Dir(), baseDir)
	return makeBase(ctx, o.base, source)
}

// makeBase pins the base of a source in dir, and puts there what a check needs.
func makeBase(ctx context.Context, dir string, source *workspace.Source) error {
	if err := source.Pin(ctx, dir); err != nil {
		return err
	}
	return PrepareTrials(dir)
}

// PrepareTrials puts into a directory what a Trial needs there.
func PrepareTrials(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, checkFile), []byte(checkScenario), 0o600); err != nil {
		return fmt.Errorf("prepare the check: %w", err)
	}
	return nil
}

// check runs the check of a run whose turn completed and whose change was collected. How it ends is no error: it stands
// in the manifest.
func (r *execution) check(ctx context.Context) {
	if r.spec.Check == nil || r.turn.Status != responses.StatusCompleted || r.diff == nil {
		return
	}
	r.spec.Watch.Phase(state.PartCheck)
	if err := r.forgetCheck(); err != nil {
		r.manifest.Checked.Error = new(runner.Describe(err))
		return
	}
	source := r.config.Source
	if source == nil { // another process opened it
		source = r.session.Tree().Again()
	}
	t := Trial{Check: *r.spec.Check, Session: r.spec.Session, Home: r.spec.Home, Keep: r.spec.Keep,
		Quota: r.spec.Quota, Version: r.spec.Version, Dir: r.spec.base, Source: source,
		BaseFiles: r.session.Tree().BaseFiles, Prefix: r.info.Prefix, Files: r.diff.Files, beat: r.ask.Beat,
		Change: workspace.Continuation{Run: r.run.ID(), Patch: r.patchPath(),
			Objects: filepath.Join(r.run.Dir(), ObjectsDir), Submodules: r.diff.Submodules}}
	r.manifest.Warnings = append(r.manifest.Warnings, t.Do(ctx, r.manifest.Checked)...)
}

// distrust has a check not pass whose command used files that the run changed: they may say that all is well.
func distrust(c *state.Check, named []string) {
	if c.Status != state.CheckPassed || len(named) == 0 {
		return
	}
	c.Status = state.CheckChanged
	shown := make([]string, 0, maxNamed)
	for _, file := range named[:min(len(named), maxNamed)] {
		shown = append(shown, visible.Name(file))
	}
	text := strings.Join(shown, ", ")
	if more := len(named) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	c.Error = &state.Failure{Code: string(codeCheckChanged), Param: "--check-paths",
		Message: "the check ended with 0, but the run changed what its command names: " + text,
		Hint: "read the change, then say with --check-paths what the check gets as it was: a pattern that fits the file " +
			"restores it, patterns that do not, such as '', leave it as the run made it"}
}

// maxNamed bounds the files that an error names.
const maxNamed = 5

// printed is the end of what the command of a check printed, which its results have whole: of its output, then of its
// errors.
func printed(results string) (text string) {
	turn, err := turnfiles.OpenCollected(results)
	if err != nil {
		return ""
	}
	defer turn.Close()
	for _, stream := range []string{"stdout.log", "stderr.log"} {
		f, err := turn.Open(path.Join(turns.ToolsDir, state.PartCheck, stream))
		if err != nil {
			continue // nothing was printed there
		}
		if size, err := f.Seek(0, io.SeekEnd); err == nil {
			_, _ = f.Seek(max(0, size-maxShownOutput), io.SeekStart) // what cannot be read is not shown
		}
		data, _ := io.ReadAll(io.LimitReader(f, maxShownOutput))
		_ = f.Close() // only read
		text += visible.Text(string(data))
	}
	return text
}

// commandWatch is the Watcher of a check: it keeps how its command ended.
type commandWatch struct {
	unwatched
	end turns.Result
}

// Fact implements runner.Observer.
func (w *commandWatch) Fact(ev turns.RuntimeEvent) {
	var end turns.Result
	if (ev.Type == turns.ToolResult || ev.Type == turns.ToolFailed) && json.Unmarshal(ev.Payload, &end) == nil {
		w.end = end
	}
}

// settleCheck decides how a check ended: m is what became of its run, exit the code with which its command ended.
func settleCheck(c *state.Check, m *state.Manifest, exit *int) {
	switch {
	case m.Status == state.StatusCompleted && exit != nil:
		c.Status, c.ExitCode = state.CheckFailed, exit
		if *exit == 0 {
			c.Status = state.CheckPassed
		}
		return
	case m.Outcome == state.OutcomeDeadline:
		c.Status = state.CheckTimeout
		c.Error = &state.Failure{Code: "check_timeout", Param: "--check-timeout", Hint: "raise --check-timeout",
			Message: "the check was ended after " + duration.Text(time.Duration(m.Limits.TimeoutMS)*time.Millisecond)}
		return
	case m.Error != nil && m.Error.Code == responses.ReasonMaxOutputBytes:
		c.Status = state.CheckLimit
		c.Error = &state.Failure{Code: "check_output", Param: "--check", Hint: "let it print less",
			Message: "the check was ended because it left more output than " + visible.Size(m.Limits.MaxOutput)}
		return
	case m.Error != nil && m.Error.Param == "--disk":
		c.Status = state.CheckLimit
	}
	if c.Error = m.Error; c.Error == nil { // its turn completed without a result
		c.Error = &state.Failure{Code: responses.CodeServerError, Message: "the check ended without an exit code"}
	}
}

// unchecked is the end of a run whose turn completed and that did not pass its check, nil if it did. cause is why the
// context of the run ended.
func (r *execution) unchecked(cause error) *verdict {
	c := r.manifest.Checked
	switch {
	case c == nil || c.Status == state.CheckPassed:
		return nil
	case c.Status == state.CheckNotRun && cause != nil:
		return new(failed(state.StatusCompleted, state.OutcomeCancelled, cause)) // its turn had ended
	case c.Status == state.CheckNotRun && r.stopped:
		return new(failed(state.StatusCompleted, state.OutcomeCancelled, runner.ErrInterrupted))
	}
	e := &runner.Error{Code: CodeCheckFailed, Param: "--check",
		Hint: "see its output with: holon logs --outputs " + c.RunID}
	switch {
	case c.Status == state.CheckChanged:
		e.Code, e.Param, e.Message, e.Hint = codeCheckChanged, c.Error.Param, c.Error.Message, c.Error.Hint
	case c.Status == state.CheckFailed:
		e.Message = fmt.Sprintf("the check failed with exit code %d", *c.ExitCode)
	case c.Error != nil:
		e.Message = c.Error.Message
		if c.Error.Hint != "" {
			e.Hint = c.Error.Hint
		}
		if c.Status == state.CheckNotRun {
			e.Message = "the check could not be run: " + e.Message
		}
	default:
		e.Message, e.Hint = "holon was killed before the check ended", "start it again"
	}
	return new(failed(state.StatusCompleted, state.OutcomeFailure, e))
}
