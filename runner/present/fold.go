package present

import (
	"strings"

	"holon/runner/agent/view"
	"holon/runner/control/wire"
)

// Fold makes rows of what an agent's event stream carries. The zero Fold is ready. It belongs to one goroutine.
type Fold struct {
	writing Row // text that is written; Key "": none
}

// Event returns the rows that an event adds or changes, in order.
func (f *Fold) Event(ev *view.EventEnvelope) []Row {
	d := ev.Display
	return []Row{{Key: ev.ID, Seq: ev.EventSeq, At: ev.TS, TurnID: ev.Provenance.TurnID,
		MessageID: ev.Provenance.MessageID, Level: Mode(max(d.Level, int(Info))), Visibility: d.Visibility,
		Category: d.Category, Title: d.Title, Body: d.Body, Summary: d.Summary, Source: d.SourceEventKind,
		Markdown: d.Category == CategoryBrief}}
}

// Text returns the row of a text that a model writes now. The event that has the text whole changes the same row.
func (f *Fold) Text(t *wire.Text) Row {
	key := "text-" + t.ItemID
	if f.writing.Key != key {
		f.writing = Row{Key: key, TurnID: t.TurnID, MessageID: t.MessageID, Level: Info, Category: CategoryProgress,
			Visibility: "progress", Title: "assistant progress", Markdown: true, Open: true}
	}
	f.writing.Body = f.writing.Body[:min(t.Offset, len(f.writing.Body))] + t.Text
	f.writing.Summary, _, _ = strings.Cut(f.writing.Body, "\n")
	return f.writing
}

// Reset forgets what is under way: events are missing between what was folded and what follows.
func (f *Fold) Reset() { *f = Fold{} }
