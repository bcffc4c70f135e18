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
	s, c := t.rec.Snapshot, *t.rec.Command
	if c.AcceptsInput = c.AcceptsInput && t.proc != nil && !t.noInput; c.AcceptsInput {
		c.InputTarget = t.target()
	}
	s.Command = &c
	return s
}

func (t *task) entry() wire.Entry {
	r := &t.rec
	return wire.Entry{
		ID: r.TaskID, Kind: r.Kind, Status: r.Status, Summary: r.Summary, UpdatedAt: r.UpdatedAt,
		WaitPolicy: r.WaitPolicy, SessionID: r.SessionID, Command: r.Command.CmdPreview,
	}
}

func (t *task) target() string {
	if t.rec.Command.TTY {
		return wire.TargetTTY
	}
	return wire.TargetStdin
}

// Preview is a command line on one short line.
func Preview(cmd string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(cmd), "\n")
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
	out := wire.Output{TaskID: r.TaskID, Kind: r.Kind, Status: r.Status, Summary: r.Summary,
		Artifacts: []wire.Artifact{}, ExitStatus: r.Command.ExitStatus, ResultSummary: r.Command.ResultSummary}
	var stdout, stderr process.Capture
	var cut, stderrCut bool
	if proc != nil {
		stdout, stderr = proc.Snapshot()
		out.OutputBytes = stdout.Total + stderr.Total
	} else {
		stdout, cut = r.Stdout.capture(r.Command.OutputPath, budget)
		stderr, stderrCut = r.Stderr.capture(r.Command.StderrPath, budget)
		out.OutputBytes = max(r.Stdout.Total, stdout.Total) + max(r.Stderr.Total, stderr.Total)
	}
	out.OutputPreview, out.OutputTruncated = preview.Joined(stdout, stderr, budget)
	out.OutputTruncated = out.OutputTruncated || cut || stderrCut
	r.addArtifacts(&out, stdout, stderr)
	r.addNotes(&out, stdout, stderr)
	if r.Failure != "" {
		out.FailureArtifact = &wire.Failure{Category: "task", Kind: r.Failure, Summary: r.Summary, TaskID: r.TaskID,
			ExitStatus: r.Command.ExitStatus}
	}
	return out
}

// addArtifacts lists the files that hold output.
func (r *record) addArtifacts(o *wire.Output, stdout, stderr process.Capture) {
	add := func(path string) *int {
		o.Artifacts = append(o.Artifacts, wire.Artifact{Path: path})
		return new(len(o.Artifacts) - 1)
	}
	if stdout.Logged > 0 && r.Command.OutputPath != "" {
		i := add(r.Command.OutputPath)
		if r.Command.TTY || stderr.Total == 0 {
			o.OutputArtifact = i
		} else {
			o.StdoutArtifact = i
		}
	}
	if stderr.Logged > 0 && r.Command.StderrPath != "" {
		i := add(r.Command.StderrPath)
		if stdout.Total == 0 {
			o.OutputArtifact = i
		} else {
			o.StderrArtifact = i
		}
	}
}

// addNotes says what the files lack of the output.
func (r *record) addNotes(o *wire.Output, stdout, stderr process.Capture) {
	if r.Status.Terminal() { // an excerpt has nothing of the file
		stdout, stderr = r.Stdout.sizes(), r.Stderr.sizes()
	}
	for _, s := range []struct {
		name, path string
		process.Capture
	}{{"stdout", r.Command.OutputPath, stdout}, {"stderr", r.Command.StderrPath, stderr}} {
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
