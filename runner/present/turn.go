package present

import (
	"encoding/json"
	"fmt"
	"time"

	"holon/internal/duration"
	"holon/responses"
	"holon/runner/activity"
)

// Turn makes rows of the events of one Open Responses stream: a turn of a session or of a run, asked with the include
// of calls of tools. The zero Turn is ready. It belongs to one goroutine.
type Turn struct {
	rows   map[string]*Row // that go on, by item
	status Status
	id     string // of the response
}

// Event returns the rows that an event adds or changes, in order.
func (t *Turn) Event(ev responses.Event) []Row {
	if t.rows == nil {
		t.rows = map[string]*Row{}
	}
	switch ev.Type {
	case responses.EventTextDelta, responses.EventRefusalDelta:
		t.status.Doing = "writing"
		return t.write(ev, Row{Key: "text-" + ev.ItemID, Level: Info, Visibility: "progress", Category: CategoryProgress,
			Title: "Assistant progress"})
	case responses.EventReasoningSummaryTextDelta:
		t.status.Doing = "thinking"
		return t.write(ev, Row{Key: "reasoning-" + ev.ItemID, Level: Verbose, Visibility: "progress",
			Category: CategoryProgress, Title: "Thinking"})
	case responses.EventItemAdded, responses.EventItemDone:
		return t.item(ev)
	case responses.EventError:
		if ev.Error != nil {
			return []Row{t.failed(ev, ev.Error.Message)}
		}
	}
	if ev.Response != nil {
		return t.response(ev)
	}
	return nil
}

// Status is what goes on after the newest event.
func (t *Turn) Status() Status { return t.status }

// write adds to a text that is written.
func (t *Turn) write(ev responses.Event, begun Row) []Row {
	row := t.rows[begun.Key]
	if row == nil {
		if len(t.rows) >= most {
			return nil
		}
		begun.TurnID, begun.Source, begun.Markdown, begun.Open = t.id, ev.Type, true, true
		row = &begun
		t.rows[begun.Key] = row
	}
	row.Body += ev.Delta
	row.Summary = summary(row.Title, row.Body)
	return []Row{*row}
}

// item is the row of an item that begins or is complete.
func (t *Turn) item(ev responses.Event) []Row {
	done := ev.Type == responses.EventItemDone
	switch m := ev.Item.(type) {
	case *responses.Message:
		if m.Role == responses.RoleAssistant && done {
			return t.text(ev, m)
		}
	case *responses.Reasoning:
		if row := t.rows["reasoning-"+m.ID]; row != nil && done {
			delete(t.rows, row.Key)
			row.Open = false
			return []Row{*row}
		}
	case *responses.FunctionCall:
		row := t.call(ev, m.ID, m.Name, m.Arguments)
		if row.Open = !done; done {
			row.Visibility, row.Body = "action_required", "the client answers it"
			row.Summary = summary(row.Title, row.Body)
		}
		return []Row{row}
	case *responses.ToolCall:
		row := t.call(ev, m.ID, m.Name, m.Arguments)
		if row.Open = !done; done {
			row.ended(m)
			t.status.Doing = ""
		}
		return []Row{row}
	}
	return nil
}

// text is a message that is complete: the answer, or what the model says on its way.
func (t *Turn) text(ev responses.Event, m *responses.Message) []Row {
	delete(t.rows, "text-"+m.ID)
	row := Row{Key: "text-" + m.ID, TurnID: t.id, Level: Info, Visibility: "turn_result", Category: CategoryBrief,
		Title: "answer", Body: m.Text(), Markdown: true, Source: ev.Type}
	if m.Phase == responses.PhaseCommentary {
		row.Level, row.Visibility, row.Category, row.Title = Verbose, "progress", CategoryProgress, "Assistant progress"
	}
	row.Summary = summary(row.Title, row.Body)
	return []Row{row}
}

func (t *Turn) call(ev responses.Event, item, tool, arguments string) Row {
	c := CallOf(tool, arguments)
	if ev.Type == responses.EventItemAdded {
		t.status.Doing = c.Text
		t.status.ToolCalls++
	}
	return Row{Key: "call-" + item, TurnID: t.id, Level: Verbose, Visibility: "trace", Category: CategoryTool,
		Title: c.Text, Summary: c.Text, Source: ev.Type, Call: &c}
}

// ended is the end of a call, from the canonical result of its tool.
func (row *Row) ended(m *responses.ToolCall) {
	var c struct {
		Summary string `json:"summary_text"`
		Result  struct {
			Exit *int `json:"exit_status"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(m.Result, &c) // then nothing more is known of it
	row.Body = c.Summary
	row.Call.ExitCode, row.Call.Output = c.Result.Exit, activity.Output(m.Result, maxOutput)
	row.Failed = c.Result.Exit != nil && *c.Result.Exit != 0
	if c.Error != nil {
		row.Failed, row.Body = true, c.Error.Message
	}
	row.Summary = summary(row.Title, row.Body)
}

// response is the row of the turn: it began, or it ended.
func (t *Turn) response(ev responses.Event) []Row {
	r := ev.Response
	t.id, t.status.TurnID = r.ID, r.ID
	row := Row{Key: "turn-" + r.ID, TurnID: r.ID, Level: Verbose, Visibility: "trace", Category: CategoryRuntime,
		Title: "turn started", Source: ev.Type, Open: !r.Status.Terminal()}
	row.Summary = row.Title
	if row.Open {
		if ev.Type == responses.EventCreated {
			return []Row{row}
		}
		return nil
	}
	begun := row
	begun.Level, begun.Open = Never, false // its end stands below what it did
	row.Key = "end-" + r.ID
	calls := t.status.ToolCalls
	if t.status = (Status{}); r.Usage != nil {
		row.Body = fmt.Sprintf("%s, %d tokens in, %d out", count(calls, "tool call"), r.Usage.InputTokens,
			r.Usage.OutputTokens)
		if r.CompletedAt != nil && *r.CompletedAt > r.CreatedAt {
			row.Body = duration.Text(time.Duration(*r.CompletedAt-r.CreatedAt)*time.Second) + ": " + row.Body
		}
	}
	row.Title = "turn " + string(r.Status)
	row.Summary = summary(row.Title, row.Body)
	switch {
	case r.Error != nil:
		return []Row{begun, t.failed(ev, r.Error.Message)}
	case r.IncompleteDetails != nil:
		return []Row{begun, t.failed(ev, r.IncompleteDetails.Reason)}
	case ev.Type != responses.EventCompleted:
		return []Row{begun, t.failed(ev, string(r.Status))}
	}
	return []Row{begun, row}
}

// failed is the row of a turn that ended without an answer.
func (t *Turn) failed(ev responses.Event, why string) Row {
	title := "turn failed"
	if ev.Type == responses.EventIncomplete {
		title = "turn incomplete"
	}
	t.status = Status{}
	return Row{Key: "end-" + t.id, TurnID: t.id, Level: Info, Visibility: "turn_result", Category: CategoryRuntime,
		Title: title, Body: why, Summary: summary(title, why), Source: ev.Type, Failed: true}
}
