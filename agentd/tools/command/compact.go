package command

import (
	"cmp"
	"slices"

	"holon/agentd/preview"
	"holon/agentd/tools"
	wire "holon/responses/tasks"
)

// Family is the results of this package's tools. It implements tools.Family.
type Family struct{}

// Owns implements tools.Family.
func (Family) Owns(r tools.Result) bool {
	return slices.Contains([]string{ExecName, batchName, listName, statusName, OutputName, inputName, StopName},
		r.ToolName)
}

// Render implements tools.Renderer.
func (Family) Render(r tools.Result, policy tools.RenderPolicy) string {
	text, ok := "", false
	switch r.ToolName {
	case ExecName:
		return renderExec(r, policy)
	case batchName:
		return renderBatch(r, policy)
	case listName:
		text, ok = rendered(r, func(l wire.List) string { return renderList(l) })
	case statusName:
		text, ok = rendered(r, func(s wire.StatusResult) string { return renderSnapshot(s.Task) })
	case OutputName:
		text, ok = rendered(r, func(o wire.OutputResult) string { return renderTaskOutput(o, policy) })
	case inputName:
		text, ok = rendered(r, renderInput)
	case StopName:
		text, ok = rendered(r, renderStop)
	}
	if !ok {
		return r.SummaryText
	}
	return text
}

// rendered renders a result of type T.
func rendered[T any](canonical tools.Result, render func(T) string) (string, bool) {
	v, ok := decoded[T](canonical)
	if !ok {
		return "", false
	}
	return render(v), true
}

// Compact implements tools.Family.
func (Family) Compact(r tools.Result, b tools.Bounds) (tools.Result, bool) {
	switch r.ToolName {
	case ExecName:
		return compactExec(r, b)
	case batchName:
		return compacted(r, func(v *batchResult) { v.compact(b) })
	case listName:
		return compacted(r, func(l *wire.List) {
			n := min(len(l.Tasks), b.List)
			l.Tasks, l.Omitted = l.Tasks[:n], l.Omitted+len(l.Tasks)-n
		})
	case statusName:
		return compacted(r, func(v *wire.StatusResult) { compactCommand(v.Task.Command, b) })
	case OutputName:
		return compacted(r, func(v *wire.OutputResult) {
			short, cut := preview.Shorten(&v.Task.OutputPreview, b.Text)
			if short == nil {
				short = new("")
			}
			v.Task.OutputPreview, v.Task.OutputTruncated = *short, v.Task.OutputTruncated || cut
		})
	case inputName:
		return compacted(r, func(v *wire.InputResult) { compactCommand(v.Task.Command, b) })
	case StopName:
		return compacted(r, func(v *wire.StopResult) { compactCommand(v.Task.Command, b) })
	}
	return r, false
}

// compacted changes a result of type T.
func compacted[T any](r tools.Result, shorten func(*T)) (tools.Result, bool) {
	v, ok := decoded[T](r)
	if !ok {
		return r, false
	}
	shorten(&v)
	return r.With(v), true
}

func compactExec(r tools.Result, b tools.Bounds) (tools.Result, bool) {
	switch dispositionOf(r) {
	case completedRun:
		return compacted(r, func(c *completedResult) { c.compact(b) })
	case promotedToTask:
		return compacted(r, func(p *promotedResult) {
			short, cut := preview.Shorten(p.InitialOutputPreview, b.Text)
			p.InitialOutputPreview, p.InitialOutputTruncated = short, p.InitialOutputTruncated || cut
		})
	case duplicateRun:
		return compacted(r, func(a *alreadyResult) { compactCommand(a.Command, b) })
	}
	return r, false
}

// compact gives standard error a quarter of the room, or what standard output leaves. What the diagnostics say is in
// the call's arguments.
func (c *completedResult) compact(b tools.Bounds) {
	forErr := min(sizeOf(c.StderrPreview), max(b.Text/4, b.Text-sizeOf(c.StdoutPreview)))
	if forErr < sizeOf(c.StderrPreview) && forErr < preview.MinShort { // a few lines of it say more than none
		forErr = min(preview.MinShort, b.Text)
	}
	var cutOut, cutErr bool
	c.StdoutPreview, cutOut = preview.Shorten(c.StdoutPreview, b.Text-forErr)
	c.StderrPreview, cutErr = preview.Shorten(c.StderrPreview, forErr)
	c.Truncated = c.Truncated || cutOut || cutErr
	c.Diagnostics = nil
}

// leastCmd is how much of a command line always stays.
const leastCmd = 80

// compact gives the outputs that are longer than their share what the others leave: to as many of them as can show
// anything, and first to those of commands that failed.
func (v *batchResult) compact(b tools.Bounds) {
	share := tools.Bounds{Text: b.Text / max(len(v.Items), 1), List: b.List}
	left := b.Text
	var long []*completedResult
	for i := range v.Items {
		it := &v.Items[i]
		it.Cmd = tools.Clip(it.Cmd, max(share.Text/2, leastCmd))
		it.ErrorMessage = tools.Clip(it.ErrorMessage, max(share.Text, 2*leastCmd))
		it.ErrorDetails = tools.CompactDetails(it.ErrorDetails, share)
		switch r := it.Result; {
		case r == nil:
		case r.shown() > share.Text:
			long = append(long, r)
		default:
			r.compact(share)
			left -= r.shown()
		}
	}
	slices.SortStableFunc(long, func(x, y *completedResult) int {
		return cmp.Compare(failed(y), failed(x))
	})
	fit := min(len(long), left/preview.MinShort)
	for i, r := range long {
		if i < fit {
			r.compact(tools.Bounds{Text: left / fit, List: b.List})
		} else {
			r.compact(tools.Bounds{List: b.List})
		}
	}
}

// failed is 1 for a command that failed, 0 for another.
func failed(c *completedResult) int {
	if c.ExitStatus == 0 && c.Signal == 0 {
		return 0
	}
	return 1
}

// shown is how many bytes of output a result shows.
func (c *completedResult) shown() int { return sizeOf(c.StdoutPreview) + sizeOf(c.StderrPreview) }

func sizeOf(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s)
}

func compactCommand(c *wire.Command, b tools.Bounds) {
	if c != nil {
		c.Cmd = tools.Clip(c.Cmd, max(b.Text/2, leastCmd))
	}
}

// Truncated implements tools.Family.
func (Family) Truncated(r tools.Result) bool {
	switch r.ToolName {
	case ExecName:
		c, _ := decoded[completedResult](r)
		p, _ := decoded[promotedResult](r)
		return c.Truncated || p.InitialOutputTruncated
	case batchName:
		v, _ := decoded[batchResult](r)
		return slices.ContainsFunc(v.Items, func(i itemResult) bool {
			cut, _ := i.ErrorDetails["truncated"].(bool)
			return cut || i.Result != nil && i.Result.Truncated
		})
	case listName:
		v, _ := decoded[wire.List](r)
		return v.Omitted > 0
	case OutputName:
		v, _ := decoded[wire.OutputResult](r)
		return v.Task.OutputTruncated
	}
	return false
}
