package command

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"holon/agentd/tools"
	wire "holon/responses/tasks"
)

// The textual receipts of the family: the outcome first, then the output as it
// is, then where the rest is and what to do next.

func (r completedResult) render(policy tools.RenderPolicy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Process exited with code %d\n", r.ExitStatus)
	r.renderOutput(&b, policy)
	return strings.TrimSuffix(b.String(), "\n")
}

func (r completedResult) renderOutput(b *strings.Builder, policy tools.RenderPolicy) {
	if r.Signal != 0 {
		fmt.Fprintf(b, "(command was killed by signal %d (%s))\n", r.Signal, unix.SignalName(unix.Signal(r.Signal)))
	}
	section(b, "stdout", r.StdoutPreview)
	section(b, "stderr", r.StderrPreview)
	switch {
	case r.StdoutPreview == nil && r.StderrPreview == nil && r.Truncated:
		b.WriteString("(output left out)\n")
	case r.StdoutPreview == nil && r.StderrPreview == nil:
		b.WriteString("(no output)\n")
	case r.Truncated && r.StdoutPreview == nil && r.StdoutArtifact != nil:
		b.WriteString("(stdout left out)\n")
	case r.Truncated && r.StderrPreview == nil && r.StderrArtifact != nil:
		b.WriteString("(stderr left out)\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "Note: %s\n", n)
	}
	if r.Truncated {
		file(b, "Full stdout", path(r.Artifacts, r.StdoutArtifact), policy)
		file(b, "Full stderr", path(r.Artifacts, r.StderrArtifact), policy)
	}
}

func section(b *strings.Builder, name string, text *string) {
	if text != nil {
		fmt.Fprintf(b, "%s:\n", name)
		block(b, *text)
	}
}

// block writes text and sees that it ends its line.
func block(b *strings.Builder, text string) {
	b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
}

func path(artifacts []tools.Artifact, index *int) string {
	if index == nil || *index < 0 || *index >= len(artifacts) {
		return ""
	}
	return artifacts[*index].Path
}

// file names a file. The paths of a turn's own artifacts are relative to its
// directory; those of tasks, which may be of another turn, are absolute.
func file(b *strings.Builder, name, path string, policy tools.RenderPolicy) {
	if path == "" {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(policy.OutputDir, path)
	}
	fmt.Fprintf(b, "%s: %s\n", name, path)
}

func (p promotedResult) render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Command promoted to background task\nTask: %s\n", p.TaskHandle.TaskID)
	switch {
	case p.InitialOutputPreview != nil:
	case p.InitialOutputTruncated:
		b.WriteString("(initial output left out)")
		return b.String()
	default:
		b.WriteString("(no output yet)")
		return b.String()
	}
	b.WriteString("Initial output:\n")
	block(&b, *p.InitialOutputPreview)
	return strings.TrimSuffix(b.String(), "\n")
}

func (a alreadyResult) render() string {
	return fmt.Sprintf("Command is already running as a task\nTask: %s\n%s", a.TaskHandle.TaskID, a.Instructions)
}

func renderList(l wire.List) string {
	if len(l.Tasks) == 0 {
		return "There are no tasks."
	}
	var b strings.Builder
	for _, t := range l.Tasks {
		fmt.Fprintf(&b, "%s %s: %s\n", t.ID, t.Status, t.Command)
		if t.Status.Terminal() {
			fmt.Fprintf(&b, "  %s\n", t.Summary)
		}
	}
	if l.Omitted > 0 {
		fmt.Fprintf(&b, "[%d older tasks are not listed]\n", l.Omitted)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func renderSnapshot(s wire.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Task %s: %s\n%s\n", s.TaskID, s.Status, s.Summary)
	if c := s.Command; c != nil {
		fmt.Fprintf(&b, "Command: %s\nDirectory: %s\n", tools.Clip(c.Cmd, maxRenderedCmd), c.Workdir)
		if c.AcceptsInput {
			fmt.Fprintf(&b, "Input: %s\n", c.InputTarget)
		}
	}
	fmt.Fprintf(&b, "Started: %s", s.CreatedAt)
	if s.Status.Terminal() {
		fmt.Fprintf(&b, "\nEnded: %s", s.UpdatedAt)
	}
	return b.String()
}

// statusOf is the answer of TaskStatus, with what the host adds to the task of a child of the agent.
type statusOf struct {
	Task hostTask `json:"task"`
}

type hostTask struct {
	wire.Snapshot
	Observability json.RawMessage `json:"child_observability"`
	Supervision   json.RawMessage `json:"child_supervision"`
}

func (t hostTask) render() string {
	text := renderSnapshot(t.Snapshot)
	for _, part := range []struct {
		name string
		data json.RawMessage
	}{{"child_observability", t.Observability}, {"child_supervision", t.Supervision}} {
		if len(part.data) > 0 {
			text += fmt.Sprintf("\n%s: %s", part.name, part.data)
		}
	}
	return text
}

// maxRenderedCmd bounds a command line within a receipt.
const maxRenderedCmd = 2000

func renderTaskOutput(r wire.OutputResult, policy tools.RenderPolicy) string {
	var b strings.Builder
	t := r.Task
	fmt.Fprintf(&b, "Task %s: %s\n", t.TaskID, t.Status)
	switch {
	case t.Status.Terminal():
		fmt.Fprintf(&b, "%s\n", t.Summary)
	case r.RetrievalStatus == wire.Timeout:
		b.WriteString("It has not ended within the time waited; this is its output so far.\n")
	default:
		b.WriteString("It has not ended; this is its output so far.\n")
	}
	switch {
	case t.OutputPreview != "":
		b.WriteString("Output:\n")
		block(&b, t.OutputPreview)
	case t.OutputTruncated:
		fmt.Fprintf(&b, "(%d bytes of output left out)\n", t.OutputBytes)
	default:
		b.WriteString("(no output)\n")
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "Note: %s\n", n)
	}
	if t.OutputTruncated {
		for _, f := range []struct {
			name  string
			index *int
		}{{"Full output", t.OutputArtifact}, {"Full stdout", t.StdoutArtifact}, {"Full stderr", t.StderrArtifact}} {
			if f.index != nil && *f.index >= 0 && *f.index < len(t.Artifacts) {
				file(&b, f.name, t.Artifacts[*f.index].Path, policy)
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func renderInput(r wire.InputResult) string {
	if !r.AcceptedInput {
		return fmt.Sprintf("Input was not accepted by task %s: %s", r.Task.TaskID, r.SummaryText)
	}
	return fmt.Sprintf("Input accepted by task %s: %s", r.Task.TaskID, r.SummaryText)
}

func renderStop(r wire.StopResult) string {
	text := fmt.Sprintf("Task %s: %s\n%s", r.Task.TaskID, r.Task.Status, r.SummaryText)
	if r.ForceStopRequested {
		text += "\nIt did not end when asked and was killed."
	}
	return text
}
