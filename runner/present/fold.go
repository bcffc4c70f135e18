package present

import (
	"encoding/json"
	"fmt"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// Fold makes rows of what an agent's event stream carries, of which it needs the events of all levels. The zero Fold is
// ready. It belongs to one goroutine.
//
// What an event says, and how much it matters, is in its Display. The fold knows which events tell of one fact: they
// have the key of one row. A row is the newest word on its fact that matters most.
type Fold struct {
	turn      turn            // under way, or the newest
	self      selfRun         // turns that the agent makes for itself
	queued    map[string]Row  // messages of others that no turn has, by id
	blocked   map[string]int  // messages that wait for a setting, by the reason
	isolation string          // what was shown of it
	warnings  map[string]bool // that were shown
	cut       bool            // the first events that are folded are not the agent's first
}

// turn is what is remembered of one turn. The next one inherits nothing of it.
type turn struct {
	Status
	row   Row // "": it has not begun
	own   bool
	calls []call
	texts []text
	retry Row          // the newest failure of a model
	cost  state.Amount // 0: not charged yet, or not known
}

// most bounds what is remembered of one kind: calls that run, texts of a turn, messages in the queue.
const most = 1000

// handlers are the events whose rows take more than the event. The others are rows of their own, or part of the call
// that made them.
var handlers = map[string]func(*Fold, *view.EventEnvelope) []Row{
	record.MessageAdmitted:      (*Fold).admitted,
	record.OperatorInterjection: (*Fold).started,
	record.MessageStarted:       (*Fold).started,
	record.QueueEntrySettled:    (*Fold).started,
	record.QueueEntryBlocked:    (*Fold).isBlocked,
	record.QueueEntryUnblocked:  (*Fold).unblocked,
	record.SystemTickEmitted:    nothing, // the message says it
	record.TimerFired:           nothing,
	record.BudgetSpent:          nothing, // the notification says it
	record.TurnStarted:          (*Fold).turnStarted,
	record.CurrentRunAborted:    (*Fold).turnChanged,
	record.TurnTerminal:         (*Fold).turnEnded,
	record.RuntimeError:         (*Fold).turnFailed,
	turns.ModelRequested:        (*Fold).asked,
	record.ProviderRound:        (*Fold).roundFailed,
	record.AssistantRound:       (*Fold).round,
	turns.CostRecorded:          (*Fold).spent,
	record.ModelDelta:           (*Fold).wrote,
	record.BriefCreated:         (*Fold).brief,
	turns.ToolStarted:           (*Fold).called,
	record.ToolExecuted:         (*Fold).returned,
	turns.SandboxApplied:        (*Fold).isolated,
	record.RuntimeWarning:       (*Fold).warned,
}

func nothing(*Fold, *view.EventEnvelope) []Row { return nil }

// Event returns the rows that an event adds or changes, in order.
func (f *Fold) Event(ev *view.EventEnvelope) []Row {
	if handle := handlers[ev.Type]; handle != nil {
		return handle(f, ev)
	}
	row := rowOf(ev)
	if row.Category == CategoryTrace || f.self.has(ev) && row.Level == Debug {
		return nil
	}
	switch ev.Type {
	case record.ControlApplied, record.WorktreeRetained: // the next step is the operator's
		row.Level = Info
	case record.WorkItemWritten, record.WorkItemPicked, record.WorkItemCompleted:
		if w := ev.Payload.Work; w != nil { // one change: it is written, as a task of the queue too, and picked or completed
			row.Key = fmt.Sprintf("work-%s-%d", w.ID, w.Revision)
		}
	}
	if of := f.turn.callBehind(row.Category); of != nil {
		return of.does(row)
	}
	return []Row{row}
}

// rowOf is the row of an event that is a fact of its own.
func rowOf(ev *view.EventEnvelope) Row {
	d := ev.Display
	return Row{Key: ev.ID, Seq: ev.EventSeq, At: ev.TS, TurnID: ev.Provenance.TurnID,
		MessageID: ev.Provenance.MessageID, Level: max(Mode(d.Level), Info), Visibility: d.Visibility,
		Category: d.Category, Title: d.Title, Body: d.Body, Summary: d.Summary, Source: d.SourceEventKind}
}

// Reset forgets what is under way: events are missing between what was folded and what follows.
func (f *Fold) Reset() { *f = Fold{} }

// Status is what goes on after the newest event.
func (f *Fold) Status() Status {
	if !f.turn.row.Open {
		return Status{}
	}
	return f.turn.Status
}

// admitted is the row of a message of somebody else. One that the agent or the runtime made is no row: its turn is.
func (f *Fold) admitted(ev *view.EventEnvelope) []Row {
	m := ev.Payload.Message
	if m == nil || f.self.takes(m) {
		return nil
	}
	row := rowOf(ev)
	row.Key, row.Open = "message-"+ev.Provenance.MessageID, true
	if m.Origin.Kind == ledger.OriginTask { // what ended is a row
		return nil
	}
	row.Level, row.Visibility = Info, "turn_result"
	if f.queued == nil {
		f.queued = map[string]Row{}
	}
	if len(f.queued) < most {
		f.queued[ev.Provenance.MessageID] = row
	}
	return []Row{row}
}

// started closes the row of a message that has left the queue.
func (f *Fold) started(ev *view.EventEnvelope) []Row {
	id := ev.Provenance.MessageID
	row, ok := f.queued[id]
	if !ok {
		return nil
	}
	delete(f.queued, id)
	row.Seq, row.TurnID, row.Open = ev.EventSeq, ev.Provenance.TurnID, false
	if ev.Type == record.OperatorInterjection {
		row.Title += ", into the turn that runs"
	}
	return []Row{row}
}

// isBlocked is one row for all messages that wait for the same.
func (f *Fold) isBlocked(ev *view.EventEnvelope) []Row {
	row := rowOf(ev)
	if f.blocked == nil {
		f.blocked = map[string]int{}
	}
	if len(f.blocked) >= most {
		clear(f.blocked)
	}
	f.blocked[row.Body]++
	row.Key, row.Level, row.MessageID = "blocked-"+row.Body, Info, ""
	row.Title = "message waits"
	if n := f.blocked[row.Body]; n > 1 {
		row.Title = fmt.Sprintf("%d messages wait", n)
	}
	row.Summary = visible.WithRemedy(row.Title, row.Body)
	return []Row{row}
}

func (f *Fold) unblocked(*view.EventEnvelope) []Row {
	f.blocked = nil
	return nil
}

// asked notes what the turn does.
func (f *Fold) asked(ev *view.EventEnvelope) []Row {
	var r turns.Requested
	if f.turn.has(ev) && json.Unmarshal(ev.Payload.Data, &r) == nil {
		f.turn.Doing = fmt.Sprintf("round %d: thinking", r.Round)
	}
	return nil
}

// spent counts what a request or all of the turn took.
func (f *Fold) spent(ev *view.EventEnvelope) []Row {
	var c turns.Cost
	if !f.turn.has(ev) || json.Unmarshal(ev.Payload.Data, &c) != nil {
		return nil
	}
	if c.Usage != nil {
		f.turn.Input, f.turn.Output = f.turn.Input+c.Usage.InputTokens, f.turn.Output+c.Usage.OutputTokens
	}
	f.turn.cost += state.Amount(c.Micros())
	return nil
}

// isolated is a row where what holds the agent is not what it was: it is the same for each turn.
func (f *Fold) isolated(ev *view.EventEnvelope) []Row {
	row := rowOf(ev)
	if row.Body == f.isolation {
		return nil
	}
	known := f.isolation == "" && f.cut
	f.isolation, f.cut = row.Body, false
	if row.Body == "" || known { // everything is enforced, or it was the same before
		return nil
	}
	row.Level, row.Category, row.Visibility = Info, CategoryRuntime, "turn_result"
	return []Row{row}
}

// warned is the row of a warning. Each turn has those of skills and servers that cannot be used: one is shown once.
func (f *Fold) warned(ev *view.EventEnvelope) []Row {
	row := rowOf(ev)
	if row.Category == CategoryTrace || f.warnings[row.Body] {
		return nil
	}
	if f.warnings == nil || len(f.warnings) == most {
		f.warnings = map[string]bool{}
	}
	f.warnings[row.Body] = true
	return []Row{row}
}

// Text returns the row of a text that a model writes now. The event that has the text whole changes the same row.
func (f *Fold) Text(t *wire.Text) Row {
	if t.TurnID != f.turn.TurnID { // its events come later
		f.turn = turn{Status: Status{TurnID: t.TurnID, MessageID: t.MessageID}}
	}
	at := f.turn.text(t.ItemID)
	at.row.TurnID, at.row.MessageID, at.row.Open = t.TurnID, t.MessageID, true
	at.live = at.live[:min(max(t.Offset, 0), len(at.live))] + t.Text
	f.turn.Doing = "writing"
	return at.shown()
}

// text is a message of the model, by its item.
type text struct {
	item        string
	live, whole string // as it is written, as it is recorded
	row         Row
}

// text finds a text of the turn, or begins it.
func (t *turn) text(item string) *text {
	for i := range t.texts {
		if t.texts[i].item == item {
			return &t.texts[i]
		}
	}
	if len(t.texts) == most {
		t.texts = t.texts[1:]
	}
	t.texts = append(t.texts, text{item: item, row: Row{Key: "text-" + item, Level: Info, Visibility: "progress",
		Category: CategoryProgress, Title: "Assistant progress", Markdown: true}})
	return &t.texts[len(t.texts)-1]
}

// shown is the row with as much of the text as there is.
func (t *text) shown() Row {
	if t.row.Body = t.whole; len(t.live) > len(t.whole) {
		t.row.Body = t.live
	}
	t.row.Summary = summary(t.row.Title, t.row.Body)
	return t.row
}

// wrote is the text of a message that is complete, or a part of it.
func (f *Fold) wrote(ev *view.EventEnvelope) []Row {
	var d record.Text
	if json.Unmarshal(ev.Payload.Data, &d) != nil || !f.turn.enter(ev) {
		return nil
	}
	at, row := f.turn.text(d.ItemID), rowOf(ev)
	if at.whole += d.Delta; d.Phase == responses.PhaseFinalAnswer {
		row.Level = Info
	}
	row.Key, row.Markdown, row.Open = at.row.Key, true, len(at.live) > len(at.whole)
	if at.row = row; f.turn.own && !row.Open && f.self.repeats(at.whole) {
		at.row.Level = Never
	}
	return []Row{at.shown()}
}

// round is a round of the model that has no text: what it wrote is a row.
func (f *Fold) round(ev *view.EventEnvelope) []Row {
	var s turns.Sampled
	if json.Unmarshal(ev.Payload.Data, &s) != nil || len(s.Messages) > 0 || f.self.has(ev) {
		return nil
	}
	row := rowOf(ev)
	row.Level = Debug
	return []Row{row}
}

// roundFailed is one row for all that a model fails in a turn. What it had written of an answer is taken back.
func (f *Fold) roundFailed(ev *view.EventEnvelope) (rows []Row) {
	var a turns.AttemptFailure
	if json.Unmarshal(ev.Payload.Data, &a) != nil || a.Message == "" || !f.turn.enter(ev) {
		return nil
	}
	for _, id := range a.Discarded {
		for i := range f.turn.texts {
			if t := &f.turn.texts[i]; t.item == id {
				t.row.Level, t.row.Open = Never, false
				rows = append(rows, t.shown())
			}
		}
	}
	row := rowOf(ev)
	row.Key, row.Level, row.Category, row.Failed = "model-"+row.TurnID, Verbose, CategoryRuntime, true
	f.turn.retry, f.turn.Doing = row, "asking again"
	return append(rows, row)
}

// brief is the agent's answer, a work item's report, or why a turn failed. The row of a text that says the same becomes
// its row.
func (f *Fold) brief(ev *view.EventEnvelope) []Row {
	row := rowOf(ev)
	row.Markdown, row.Level = true, min(row.Level, Verbose)
	b := ev.Payload.Brief
	if b == nil || ev.Provenance.TurnID != f.turn.TurnID {
		return []Row{row}
	}
	if f.turn.row.Failed && sameText(b.Text, f.turn.row.Body) || f.turn.own && f.self.repeats(b.Text) {
		return nil
	}
	for i := len(f.turn.texts) - 1; i >= 0; i-- {
		if t := &f.turn.texts[i]; sameText(t.whole, b.Text) || cutOf(t.whole, b.Text) {
			row.Key, row.At, row.Body = t.row.Key, t.row.At, t.whole
			t.row = row
			break
		}
	}
	if f.turn.own {
		f.self.answers(b.Text)
	}
	return []Row{row}
}
