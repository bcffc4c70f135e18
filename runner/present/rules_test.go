package present_test

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/runner/present"
	"holon/state/ledger"
	"holon/test/expect"
)

// event is an event of a turn, as a daemon shows it.
func event(kind, turn string, level int, category, title, body string, data any) *view.EventEnvelope {
	ev := &view.EventEnvelope{ID: "evt_" + kind + turn + body, Type: kind}
	ev.Provenance.TurnID, ev.Provenance.MessageID = turn, "msg_"+turn
	ev.Display.Level, ev.Display.Category, ev.Display.Title, ev.Display.Body = level, category, title, body
	ev.Display.Summary = strings.TrimSuffix(title+": "+body, ": ")
	ev.Payload.Data, _ = json.Marshal(data)
	return ev
}

func fold(f *present.Fold, list *present.List, events ...*view.EventEnvelope) {
	for _, ev := range events {
		list.Put(f.Event(ev)...)
	}
}

func started(turn string) *view.EventEnvelope {
	return event(record.TurnStarted, turn, 4, record.CategoryRuntime, "turn started", "", nil)
}

func delta(turn, item, text string, phase responses.Phase) *view.EventEnvelope {
	return event(record.ModelDelta, turn, 4, record.CategoryProgress, "Assistant progress", text,
		record.Text{Delta: text, ItemID: item, Phase: phase})
}

func written(turn, item string, offset int, text string) *wire.Text {
	return &wire.Text{TurnID: turn, MessageID: "msg_" + turn, ItemID: item, Offset: offset, Text: text}
}

// A text is one row while it is written, when it is recorded, and as the answer.
func TestTextIsOneRow(t *testing.T) {
	t.Parallel()
	var f present.Fold
	var list present.List
	fold(&f, &list, started("t"))
	list.Put(f.Text(written("t", "m", 0, "Hel")), f.Text(written("t", "m", 2, "llo")))
	expect.Equal(t, "while it is written", draw(list.Rows(present.Info)),
		"assistant_progress    Assistant progress: Hello open\n")
	brief := event(record.BriefCreated, "t", 3, record.CategoryBrief, "result", "Hello you", nil)
	brief.Payload.Brief = &ledger.Brief{Text: "Hello  you"}
	fold(&f, &list, delta("t", "m", "Hello ", responses.PhaseFinalAnswer),
		delta("t", "m", "you", responses.PhaseFinalAnswer), brief)
	expect.Equal(t, "as the answer", draw(list.Rows(present.Info)), "brief                 result: Hello you\n"+
		"                        | Hello you\n")
}

// A long answer is cut in the record of the answer, and is one row.
func TestLongTextIsOneRow(t *testing.T) {
	t.Parallel()
	var f present.Fold
	var list present.List
	text := strings.Repeat("word ", 2000)
	brief := event(record.BriefCreated, "t", 3, record.CategoryBrief, "result", "word word…", nil)
	brief.Payload.Brief = &ledger.Brief{Text: text[:4000] + "…"}
	fold(&f, &list, started("t"), delta("t", "m", text, responses.PhaseFinalAnswer), brief)
	rows := list.Rows(present.Info)
	expect.Equal(t, "rows", len(rows), 1)
	expect.Equal(t, "text", rows[0].Body, text)
}

// One fact is one row: a work item that is completed, a budget that is spent.
func TestFactIsOneRow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kinds []string
		want  string
	}{
		"completed": {[]string{record.WorkItemWritten, record.WorkItemCompleted}, record.WorkItemCompleted},
		"picked":    {[]string{record.WorkItemWritten, record.WorkItemPicked}, record.WorkItemPicked},
		"budget":    {[]string{record.BudgetSpent, record.NotificationRequested}, record.NotificationRequested},
	} {
		var f present.Fold
		var list present.List
		for _, kind := range c.kinds {
			ev := event(kind, "", 4, record.CategoryWork, kind, "", nil)
			ev.Payload.Work = &view.WorkRecord{ID: "w", Revision: 3}
			fold(&f, &list, ev)
		}
		expect.Equal(t, name, draw(list.Rows(present.Debug)), "work_item             "+c.want+"\n")
	}
}

// A turn that the agent makes for itself is one also where its message waited behind one of the operator.
func TestOwnTurnAfterAnother(t *testing.T) {
	t.Parallel()
	var f present.Fold
	var list present.List
	admit := func(turn string, kind ledger.MessageKind) *view.EventEnvelope {
		ev := event(record.MessageAdmitted, turn, 3, record.CategoryMessage, "operator", "hello", nil)
		ev.Payload.Message = &ledger.Message{ID: "msg_" + turn, Kind: kind}
		return ev
	}
	ended := func(turn string) *view.EventEnvelope {
		return event(record.TurnTerminal, turn, 4, record.CategoryRuntime, "turn completed", "", nil)
	}
	fold(&f, &list, admit("tick", ledger.KindSystemTick), admit("asked", "operator_prompt"), started("asked"), ended("asked"),
		started("tick"), ended("tick"))
	if got := draw(list.Rows(present.Verbose)); !strings.HasSuffix(got, "1 turn of its own: system tick\n") {
		t.Errorf("the rows are\n%s", got)
	}
}

// What a model had written of an answer that broke off is taken back.
func TestDiscarded(t *testing.T) {
	t.Parallel()
	var f present.Fold
	var list present.List
	fold(&f, &list, started("t"), delta("t", "m", "Hel", responses.PhaseFinalAnswer),
		event(record.ProviderRound, "t", 5, record.CategoryRuntime, "provider round failed", "p/m: cut off",
			turns.AttemptFailure{Message: "cut off", Discarded: []string{"m"}}))
	expect.Equal(t, "what is left", draw(list.Rows(present.Debug)), "runtime               turn started open\n"+
		"runtime               provider round failed: p/m: cut off failed\n")
}

// A text that was being written when its turn was lost is in no event: who looked on sees what a reader sees who comes
// later.
func TestLostText(t *testing.T) {
	t.Parallel()
	var f present.Fold
	var list present.List
	fold(&f, &list, started("t"))
	list.Put(f.Text(written("t", "m", 0, "Hel")))
	fold(&f, &list, event(record.TurnTerminal, "t", 4, record.CategoryRuntime, "turn aborted", "", nil))
	expect.Equal(t, "what is left", draw(list.Rows(present.Debug)), "runtime               turn aborted\n")
}

// A turn inherits nothing of the one before.
func TestTurnsInheritNothing(t *testing.T) {
	t.Parallel()
	var f present.Fold
	var list present.List
	call := event(turns.ToolStarted, "a", 5, record.CategoryTrace, "tool started", "", turns.Begun{ToolName: "Sleep"})
	call.Provenance.ToolCallID = "c"
	fold(&f, &list, started("a"), call)
	expect.Equal(t, "what goes on", f.Status().Doing, "Sleep")
	fold(&f, &list, started("b"))
	expect.Equal(t, "what goes on in the next turn", f.Status(), present.Status{TurnID: "b", MessageID: "msg_b"})
	rows := f.Event(event(record.WaitRegistered, "b", 4, record.CategoryWaiting, "wait registered", "the forge", nil))
	expect.Equal(t, "rows of the wait", len(rows), 1)
	expect.Equal(t, "the wait of another call", rows[0].Call, nil)
}

// A call whose work item asks its operator for input is a row, and what it asks for is another one, in every mode.
func TestCallThatAsks(t *testing.T) {
	t.Parallel()
	var f present.Fold
	var list present.List
	call := event(turns.ToolStarted, "t", 5, record.CategoryTrace, "tool started", "", turns.Begun{ToolName: "CreateWorkItem"})
	done := event(record.ToolExecuted, "t", 4, record.CategoryTool, "CreateWorkItem", "", turns.Begun{ToolName: "CreateWorkItem"})
	call.Provenance.ToolCallID, done.Provenance.ToolCallID = "c", "c"
	asks := event(record.NotificationRequested, "t", 1, record.CategoryNotification, "for the operator", "your input", nil)
	asks.Display.Visibility = "action_required"
	fold(&f, &list, started("t"), call, asks, done)
	expect.Equal(t, "info", draw(list.Rows(present.Info)), "operator_notification for the operator: your input\n")
	if got := draw(list.Rows(present.Verbose)); !strings.Contains(got, "> CreateWorkItem") {
		t.Errorf("the call is no row:\n%s", got)
	}
}

// What asks its operator for something is in every mode, with the next step.
func TestAsksForAction(t *testing.T) {
	t.Parallel()
	for kind, ev := range map[string]*view.EventEnvelope{
		"notification": event(record.NotificationRequested, "", 1, record.CategoryNotification, "notified", "help", nil),
		"quarantined":  event(record.QueueEntryQuarantined, "", 1, record.CategoryMessage, "quarantined", "no", nil),
		"retained":     event(record.WorktreeRetained, "", 4, record.CategoryWorkspace, "retained", "cleanup pending", nil),
		"stopped":      event(record.ControlApplied, "", 4, record.CategoryRuntime, "stopped", "holon agent start main", nil),
		"blocked":      event(record.QueueEntryBlocked, "", 4, record.CategoryMessage, "blocked", "a key is missing", nil),
	} {
		var f present.Fold
		rows := f.Event(ev)
		if len(rows) != 1 || rows[0].Level != present.Info || rows[0].Body != ev.Display.Body {
			t.Errorf("%s: %+v, want one row in every mode", kind, rows)
		}
	}
}

// Hostile events have no effect but rows.
func FuzzEvent(f *testing.F) {
	f.Add("tool.started", "t", `{"tool_name":"ExecCommand","safe_args":"{"}`, "text")
	f.Add("model.delta", "", `{"delta":"x","item_id":"m"}`, "")
	f.Add("turn_terminal", "t", `null`, "\x1b[2J")
	f.Fuzz(func(t *testing.T, kind, turn, data, body string) {
		var fold present.Fold
		ev := event(kind, turn, 4, record.CategoryRuntime, "title", body, nil)
		ev.Payload.Data = json.RawMessage(data)
		for range 3 {
			fold.Event(ev)
			fold.Text(written(turn, kind, len(body)-3, data))
		}
		fold.Status()
	})
}

// The row of a turn's end has what it cost, and not what a child's turn did, which the record does not name.
func TestCostOfTurn(t *testing.T) {
	t.Parallel()
	for turn, want := range map[string]string{"t": ", cost 0.0125", "": ""} {
		var f present.Fold
		var list present.List
		charged := event(turns.CostRecorded, turn, 5, record.CategoryRuntime, "", "", map[string]any{"amount": 0.0125})
		end := event(record.TurnTerminal, "t", 4, record.CategoryRuntime, "turn completed", "", nil)
		expect.NoError(t, json.Unmarshal([]byte(`{"turn":{"kind":"completed","duration_ms":1000}}`), &end.Payload))
		fold(&f, &list, started("t"), charged, end)
		rows := list.Rows(present.Verbose)
		expect.Equal(t, "the row", rows[len(rows)-1].Body, "1s: 0 rounds, 0 tool calls"+want)
	}
}
