package present

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/runner/agent/view"
)

// call is a call of a tool that runs.
type call struct {
	id, tool string
	row      Row
	effect   bool // the row is that of what the call did: a work item, a task
}

// CallOf is a call that begins, from the arguments as the model wrote them.
func CallOf(tool, arguments string) Call {
	c := activity.Of(tool, arguments)
	return Call{Text: c.Text, Files: c.Files, Diff: c.Diff}
}

// maxOutput bounds Call.Output, in lines.
const maxOutput = 6

// called is the row of a call that begins.
func (f *Fold) called(ev *view.EventEnvelope) []Row {
	var b turns.Begun
	if json.Unmarshal(ev.Payload.Data, &b) != nil || !f.turn.enter(ev) {
		return nil
	}
	f.self.breaks(f.turn.own)
	row := rowOf(ev)
	c := CallOf(b.ToolName, b.Arguments)
	row.Key, row.Level, row.Category, row.Open = "call-"+ev.Provenance.ToolCallID, Verbose, CategoryTool, true
	row.Title, row.Summary, row.Call = c.Text, c.Text, &c
	if len(f.turn.calls) == most {
		f.turn.calls = f.turn.calls[1:]
	}
	f.turn.calls = append(f.turn.calls, call{id: ev.Provenance.ToolCallID, tool: b.ToolName, row: row})
	f.turn.Doing = c.Text
	f.turn.ToolCalls++
	return []Row{row}
}

// End is how a call ended: Call with what is known now, and for a person why it failed or what came of it.
type End struct {
	Call
	Failure string // "": it did not fail
	Summary string
}

// EndOf reads the end of a call, whose payload is that of tool.result or tool.failed; an agent's has in addition what
// the call did. begun is nil of a call whose beginning was not seen.
func EndOf(begun *Call, payload json.RawMessage) (End, error) {
	var p struct {
		turns.Result
		Call    string          `json:"call"`
		Files   []activity.File `json:"files"`
		Message string          `json:"message"` // of a failure
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return End{}, fmt.Errorf("reading the end of a call: %w", err)
	}
	e := End{Call: Call{Text: visible.OneLine(cmp.Or(p.Call, p.ToolName), 3000), Files: p.Files}, Failure: p.Message,
		Summary: p.Summary}
	if begun != nil && (p.Call == "" || p.Call == begun.Text) {
		e.Call = *begun
	}
	e.ExitCode, e.DurationMS = p.ExitCode, max(p.DurationMS, 1)
	e.Output = activity.Output(p.Canonical, maxOutput)
	return e, nil
}

// returned is the row of a call that has ended.
func (f *Fold) returned(ev *view.EventEnvelope) []Row {
	row, at, begun := rowOf(ev), f.turn.call(ev.Provenance.ToolCallID), call{}
	if at >= 0 {
		begun = f.turn.calls[at]
		f.turn.calls = slices.Delete(f.turn.calls, at, at+1)
		f.turn.Doing = ""
	}
	end, err := EndOf(begun.row.Call, ev.Payload.Data)
	if err != nil {
		return nil
	}
	row.Key, row.Level = "call-"+ev.Provenance.ToolCallID, Verbose
	if begun.effect && end.Failure == "" {
		row = begun.row
	} else if at >= 0 {
		row.At = begun.row.At
	}
	row.Seq, row.Open, row.Call = ev.EventSeq, false, &end.Call
	row.Failed = end.Failure != "" || end.ExitCode != nil && *end.ExitCode != 0
	return []Row{row}
}

func (t *turn) call(id string) int {
	return slices.IndexFunc(t.calls, func(c call) bool { return c.id == id })
}

// effects are the categories of what calls of the host's tools do. A notification is a fact of its own: it asks for
// action where the call does not.
var effects = []string{CategoryWork, CategoryTask, CategoryWorkspace, CategoryWaiting}

// callBehind is the running call that did what an event of a category tells, nil for none.
func (t *turn) callBehind(category string) *call {
	if !slices.Contains(effects, category) {
		return nil
	}
	for i := range slices.Backward(t.calls) {
		switch c := &t.calls[i]; c.tool {
		case "ApplyPatch":
		case "ExecCommand", "ExecCommandBatch":
			if category == CategoryTask {
				return c
			}
		default:
			return c
		}
	}
	return nil
}

// does makes the row of a call that of what the call did. Of several events the newest that matters most tells it.
func (c *call) does(row Row) []Row {
	if c.effect && (row.Level > c.row.Level || row.Body == "") {
		return nil
	}
	if row.Level == Debug { // as much as the call itself
		row.Level = Verbose
	}
	row.Key, row.At, row.TurnID, row.MessageID = c.row.Key, c.row.At, c.row.TurnID, c.row.MessageID
	row.Call, row.Open = c.row.Call, true
	c.row, c.effect = row, true
	return []Row{row}
}

// summary is one line that stands for a row.
func summary(title, body string) string {
	line := visible.OneLine(firstLine(body), 300)
	if line == "" {
		return title
	}
	return title + ": " + line
}
