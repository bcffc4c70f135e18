package tasks

import (
	"bytes"
	"context"
	"strings"
	"time"

	"holon/agentd/preview"
	"holon/agentd/process"
	"holon/internal/durable"
	wire "holon/responses/tasks"
)

// snapshot is the task as others see it. The caller holds the Manager's mu.
func (t *task) snapshot() wire.Snapshot {
	r := &t.rec
	c := &wire.Command{
		Cmd: r.Spec.Cmd, CmdPreview: r.Spec.Preview(), CmdDigest: r.Digest, Workdir: r.Spec.Workdir, Shell: r.Spec.Shell,
		Login: r.Spec.Login, TTY: r.Spec.TTY,
		OutputPath: r.StdoutPath, TerminalReentry: true, PromotedFromExecCommand: !r.Direct,
	}
	if !r.Spec.TTY {
		c.StderrPath = r.StderrPath
	}
	if r.Spec.AcceptsInput && t.proc != nil && !t.noInput {
		c.AcceptsInput, c.InputTarget = true, t.target()
	}
	failure := ""
	if e := r.End; e != nil {
		c.ExitStatus, c.Signal, c.ResultSummary, c.DurationMS = e.ExitStatus, e.Signal, e.Summary, e.DurationMS
		failure = e.Failure
	}
	return wire.Snapshot{
		TaskID: r.TaskID, Kind: wire.KindCommand, Status: r.Status, Summary: r.summary(), CreatedAt: r.CreatedAt,
		UpdatedAt:  r.UpdatedAt,
		WaitPolicy: wire.WaitBackground, SessionID: r.SessionID, TurnID: r.TurnID, Failure: failure, Command: c,
	}
}

func (t *task) entry() wire.Entry {
	r := &t.rec
	return wire.Entry{
		ID: r.TaskID, Kind: wire.KindCommand, Status: r.Status, Summary: r.summary(), UpdatedAt: r.UpdatedAt,
		WaitPolicy: wire.WaitBackground, SessionID: r.SessionID, Command: r.Spec.Preview(),
	}
}

func (t *task) target() string {
	if t.rec.Spec.TTY {
		return wire.TargetTTY
	}
	return wire.TargetStdin
}

func (r *record) summary() string {
	if r.End != nil {
		return r.End.Summary
	}
	if r.Status == wire.Cancelling {
		return "command is being stopped"
	}
	return "command is running"
}

// Preview is the command line on one short line.
func (s Spec) Preview() string {
	line, rest, more := strings.Cut(strings.TrimSpace(s.Cmd), "\n")
	line = clip(line, maxPreview)
	if more && strings.TrimSpace(rest) != "" && !strings.HasSuffix(line, "…") {
		line += " …"
	}
	text, _ := preview.Of(process.Capture{Head: []byte(line), Total: int64(len(line))}).Cut(2 * maxPreview)
	if text == nil {
		return ""
	}
	return *text
}

// Output returns a preview of about budget bytes of what a task has printed. It
// first waits until the task has ended, but not longer than wait. An empty
// session finds the tasks of all. The error is a not_found *responses.Error, or
// ctx's cause.
func (m *Manager) Output(ctx context.Context, session, id string, wait time.Duration, budget int) (wire.OutputResult,
	error) {
	t, err := m.find(session, id)
	if err != nil {
		return wire.OutputResult{}, err
	}
	if err := t.await(ctx, wait); err != nil {
		return wire.OutputResult{}, err
	}
	m.mu.Lock()
	rec, proc := t.rec, t.proc
	m.mu.Unlock()
	out := wire.OutputResult{RetrievalStatus: wire.Success, Task: rec.output(proc, budget)}
	switch {
	case rec.Status.Terminal():
	case wait > 0:
		out.RetrievalStatus = wire.Timeout
	default:
		out.RetrievalStatus = wire.NotReady
	}
	return out, nil
}

// output shows what a task has printed, from its process while that runs, otherwise from its files.
func (r *record) output(proc *process.Process, budget int) wire.Output {
	out := wire.Output{TaskID: r.TaskID, Kind: wire.KindCommand, Status: r.Status, Summary: r.summary(),
		Artifacts: []wire.Artifact{}}
	var stdout, stderr process.Capture
	var cut, stderrCut bool
	if proc != nil {
		stdout, stderr = proc.Snapshot()
		out.OutputBytes = stdout.Total + stderr.Total
	} else {
		stdout, cut = r.End.Stdout.capture(r.StdoutPath, budget)
		stderr, stderrCut = r.End.Stderr.capture(r.StderrPath, budget)
		out.OutputBytes = max(r.End.Stdout.Total, stdout.Total) + max(r.End.Stderr.Total, stderr.Total)
	}
	out.OutputPreview, out.OutputTruncated = preview.Joined(stdout, stderr, budget)
	out.OutputTruncated = out.OutputTruncated || cut || stderrCut
	r.addArtifacts(&out, stdout, stderr)
	r.addNotes(&out, stdout, stderr)
	if e := r.End; e != nil {
		out.ExitStatus, out.ResultSummary = e.ExitStatus, e.Summary
		if e.Failure != "" {
			out.FailureArtifact = &wire.Failure{Category: "task", Kind: e.Failure, Summary: e.Summary,
				TaskID: r.TaskID, ExitStatus: e.ExitStatus}
		}
	}
	return out
}

// addArtifacts lists the files that hold output.
func (r *record) addArtifacts(o *wire.Output, stdout, stderr process.Capture) {
	add := func(path string) *int {
		o.Artifacts = append(o.Artifacts, wire.Artifact{Path: path})
		return new(len(o.Artifacts) - 1)
	}
	if stdout.Logged > 0 && r.StdoutPath != "" {
		i := add(r.StdoutPath)
		if r.Spec.TTY || stderr.Total == 0 {
			o.OutputArtifact = i
		} else {
			o.StdoutArtifact = i
		}
	}
	if stderr.Logged > 0 && r.StderrPath != "" {
		i := add(r.StderrPath)
		if stdout.Total == 0 {
			o.OutputArtifact = i
		} else {
			o.StderrArtifact = i
		}
	}
}

// addNotes says what the files lack of the output.
func (r *record) addNotes(o *wire.Output, stdout, stderr process.Capture) {
	if r.End != nil { // an excerpt knows nothing of the file
		stdout, stderr = r.End.Stdout.sizes(), r.End.Stderr.sizes()
	}
	for _, s := range []struct {
		name, path string
		process.Capture
	}{{"stdout", r.StdoutPath, stdout}, {"stderr", r.StderrPath, stderr}} {
		if lacks := preview.Kept(s.name, s.Capture); lacks != "" && s.path != "" {
			o.Notes = append(o.Notes, lacks)
		}
	}
}

func (s stream) sizes() process.Capture {
	return process.Capture{Total: s.Total, Logged: s.Logged, OverBudget: s.OverBudget}
}

// capture returns the output of an ended task from its file or, if the file is missing or shorter than the output, the
// excerpt in the record, which may be incomplete.
func (s stream) capture(path string, budget int) (_ process.Capture, short bool) {
	f, err := durable.Open(path)
	if err != nil {
		return s.excerpt()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s.excerpt()
	}
	size := info.Size()
	lost := s.Total == 0 && s.Logged == 0 // the end was not seen: the file is all there is
	if !lost && (s.Logged < s.Total || size < s.Logged) {
		c, short := s.excerpt()
		if size >= s.Logged { // it holds the beginning
			c.Logged = s.Logged
		}
		return c, short
	}
	if lost {
		s.Total, s.Logged = size, size
	}
	keep := min(s.Total, int64(max(budget, preview.MinBytes)))
	c := process.Capture{Head: make([]byte, keep), Total: s.Total, Lines: s.Lines, Logged: s.Logged}
	if _, err := f.ReadAt(c.Head, 0); err != nil {
		return s.excerpt()
	}
	if rest := min(s.Total-keep, keep); rest > 0 {
		c.Tail = make([]byte, rest)
		if _, err := f.ReadAt(c.Tail, s.Total-rest); err != nil {
			return s.excerpt()
		}
	}
	if lost {
		c.Lines = int64(bytes.Count(c.Head, []byte("\n")) + bytes.Count(c.Tail, []byte("\n")))
	}
	return c, false
}

// excerpt is a capture of the record's excerpt. Its text says where it was cut.
func (s stream) excerpt() (_ process.Capture, short bool) {
	text := []byte(s.Excerpt)
	c := process.Capture{Head: text, Total: int64(len(text)), Lines: int64(bytes.Count(text, []byte("\n")))}
	return c, s.Total > maxExcerpt
}
