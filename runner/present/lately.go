package present

import (
	"slices"

	"holon/runner/agent/view"
)

// Past is what an agent did lately.
type Past struct {
	Rows   List   // in their newest state
	Newest int64  // number of the event after which others follow
	Epoch  string // of the log
}

// maxPages bounds the pages of events that are read back.
const maxPages = 20

// Lately reads back until there are so many rows of a mode, and folds what was read: what follows Newest goes on in the
// same rows. read answers with a page of the events before a number, 0 for the newest, the newest first.
func (f *Fold) Lately(limit int, mode Mode, read func(before int64) (view.EventPage, error)) (p Past, err error) {
	var events []view.EventEnvelope
	before, enough := int64(0), 1 // pages before the next fold, so that none is folded more than a few times
	for pages := 1; ; pages++ {
		page, err := read(before)
		if err != nil {
			return p, err
		}
		if pages == 1 {
			p.Newest, p.Epoch = page.NewestSeq, page.Epoch
		}
		events = append(events, page.Events...)
		older := page.HasOlder && len(page.Events) > 0
		if older && pages < maxPages && pages < enough {
			before = events[len(events)-1].EventSeq
			continue
		}
		p.Rows, *f = List{}, Fold{cut: older}
		for i := range slices.Backward(events) {
			p.Rows.Put(f.Event(&events[i])...)
		}
		if !older || pages == maxPages || len(p.Rows.Rows(mode)) >= limit {
			return p, nil
		}
		before, enough = events[len(events)-1].EventSeq, 2*pages
	}
}
