package present

import (
	"holon/responses"
)

// Turn makes rows of the events of one Open Responses stream: a turn of a session or of a run. It belongs to one
// goroutine.
type Turn struct {
	text map[string]*Row
}

// Event returns the rows that an event adds or changes, in order.
func (t *Turn) Event(ev responses.Event) []Row {
	if t.text == nil {
		t.text = map[string]*Row{}
	}
	switch m, _ := ev.Item.(*responses.Message); {
	case ev.Type == responses.EventTextDelta:
		row := t.text[ev.ItemID]
		if row == nil {
			row = &Row{Key: "text-" + ev.ItemID, Level: Info, Visibility: "turn_result", Category: CategoryBrief,
				Title: "answer", Markdown: true, Open: true, Source: string(ev.Type)}
			t.text[ev.ItemID] = row
		}
		row.Body += ev.Delta
		return []Row{*row}
	case m != nil && m.Role == responses.RoleAssistant && ev.Type == responses.EventItemDone:
		return []Row{{Key: "text-" + m.ID, Level: Info, Visibility: "turn_result", Category: CategoryBrief,
			Title: "answer", Body: m.Text(), Markdown: true, Source: string(ev.Type)}}
	}
	return nil
}
