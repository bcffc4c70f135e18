package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"holon/internal/durable"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state"
)

// showEnd prints how a run ended, whose results are in dir, and makes its exit
// code the program's.
func showEnd(streams Streams, asJSON bool, m *state.Manifest, dir string, view *progress) error {
	var err error
	switch {
	case asJSON:
		err = printRun(streams, m, dir, streams.Secrets.Text(view.answer()))
	case len(m.Attempts) > 0:
		err = printAttempts(streams, m)
	default:
		err = view.showAnswer(view.answer())
	}
	return showClosing(streams, m, dir, view, err)
}

// printRun is what `holon run --json` prints: the manifest, and what the runtime
// specification has at the top level of a run ("Provider Transport Contract").
func printRun(streams Streams, m *state.Manifest, dir, answer string) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	if m, err = state.DecodeManifest(data); err != nil { // every list is there
		return err
	}
	return printJSON(streams, struct {
		*state.Manifest
		TokenUsage *turns.Usage           `json:"token_usage"`
		Artifact   *turns.FailureArtifact `json:"failure_artifact"` // null unless the run failed
		FinalText  string                 `json:"final_text"`
		RawText    string                 `json:"raw_final_text"` // the same, as long as there are no work items
	}{m, m.Usage, failureArtifact(m, dir), answer, answer})
}

// failureArtifact is the evidence of a run that failed: that of its turn, or else what
// the host says of it.
func failureArtifact(m *state.Manifest, dir string) *turns.FailureArtifact {
	if m.ExitCode == 0 {
		return nil
	}
	var report turns.FailureReport
	data, err := durable.ReadFile(filepath.Join(dir, turns.FailureFile), maxFailure)
	if err == nil && json.Unmarshal(data, &report) == nil && report.Kind != "" {
		return report.Bounded()
	}
	if m.Error == nil {
		return nil
	}
	return turns.FailureArtifact{Category: turns.FailureRuntime, Kind: m.Error.Code, Summary: m.Error.Message}.Bounded()
}

const maxFailure = 1 << 20 // bytes of the report of a failed turn

// showClosing ends the progress of a run, also of one whose output could not be written: lost is why, nil where it was.
func showClosing(streams Streams, m *state.Manifest, dir string, view *progress, lost error) error {
	view.summary(m, dir)
	if m.ExitCode == 0 {
		return lost
	}
	if m.Error != nil {
		streams.sayFailure(failureOf(m))
	}
	if lost != nil && !errors.Is(lost, errReaderGone) {
		streams.sayFailure(describe(lost))
	}
	return exitError(m.ExitCode)
}

// failureOf is the error of a run as a person reads it. One that no setting is at fault for is of the run, in the form
// that the failed turn of an agent has.
func failureOf(m *state.Manifest) state.Failure {
	f := *m.Error
	switch {
	case f.Param != "":
		return f
	case m.Outcome == state.OutcomeCancelled: // the user knows why
		f.Param = m.RunID
		return f
	}
	if m.Status == state.StatusFailed && m.Turn != nil && workspaceOf(m).Changes != nil { // what is missing is the turn
		f.Message = "the turn did not complete: " + f.Message
	}
	f.Param, f.Hint = m.RunID, cmp.Or(f.Hint, "see: holon logs "+m.RunID)
	return f
}

func changes(m *state.Manifest) (files []workspace.FileChange) {
	if diff := workspaceOf(m).Changes; diff != nil {
		return diff.Files
	}
	return nil
}

func (p *progress) summary(m *state.Manifest, dir string) {
	if p.quiet {
		return
	}
	if len(m.Attempts) > 0 {
		p.summarizeAttempts(m, dir)
		return
	}
	files := changes(m)
	isEarlier := func(f workspace.FileChange) bool { return f.Earlier }
	made := slices.DeleteFunc(slices.Clone(files), isEarlier)
	head := fmt.Sprintf("%s in %s: %s changed", m.Status, elapsed(m.Timings.TotalMS), count(len(made), "file"))
	if before := len(files) - len(made); before > 0 {
		head += fmt.Sprintf(", and %d by %s", before, m.ParentRunID)
	}
	p.println(head)
	for i, f := range append(made, slices.DeleteFunc(slices.Clone(files), func(f workspace.FileChange) bool {
		return !f.Earlier
	})...) {
		if i == 20 {
			p.println(fmt.Sprintf("  … and %d more", len(files)-i))
			break
		}
		what := f.Status
		if f.Earlier {
			what = "before"
		}
		p.println(fmt.Sprintf("  %-8s %s  %s", what, namesOf(f), f.Changed()))
	}
	ws := workspaceOf(m)
	info, diff := ws.Source, ws.Changes
	if diff != nil {
		for _, line := range oneshot.ExecutedFiles(diff.Warnings) {
			p.println(line)
		}
	}
	warnings := slices.DeleteFunc(slices.Clone(m.Warnings), func(w string) bool { return slices.Contains(p.warned, w) })
	for i, w := range warnings {
		if i == 5 {
			p.println(fmt.Sprintf("  … and %d more warnings, see %s", len(warnings)-i, state.ManifestFile))
			break
		}
		p.println("  warning: " + visible.OneLine(w, 300))
	}
	p.showCheck("", m.Checked)
	p.summarizeUse(m)
	p.println("results  " + dir)
	if len(files) > 0 {
		p.println("diff     holon diff " + m.RunID)
		p.println("apply    holon apply " + m.RunID)
		if info.Kind == workspace.KindGit {
			p.println("branch   holon checkout " + m.RunID)
		}
	}
}

// summarizeUse says what the run took of models and of its budget.
func (p *progress) summarizeUse(m *state.Manifest) {
	if used := oneshot.Used(m); used != "" {
		p.println("tokens   " + used)
	}
	if spent := oneshot.Spent(m); spent != "" {
		p.println("budget   " + spent)
	}
}

// namesOf is the path of a changed file, with the one before of a file that was renamed.
func namesOf(f workspace.FileChange) string {
	name := visible.Name(f.Path)
	if f.From != "" {
		return visible.Name(f.From) + " → " + name
	}
	return name
}
