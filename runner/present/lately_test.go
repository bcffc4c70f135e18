package present_test

import (
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/present"
	"holon/test/expect"
)

// As many rows are read back as were asked for, although an event is not a row; what was so all the time is not told anew
// where they begin, and all events make the rows that following them makes.
func TestLately(t *testing.T) {
	t.Parallel()
	all := day(t)
	for i := range all {
		all[i].EventSeq = int64(i + 1)
	}
	asked := 0
	read := func(before int64) (view.EventPage, error) {
		const page = 40
		asked++
		end := len(all)
		if before > 0 {
			end = int(before) - 1
		}
		from := max(0, end-page)
		events := slices.Clone(all[from:end])
		slices.Reverse(events)
		return view.EventPage{Events: events, NewestSeq: int64(len(all)), HasOlder: from > 0, Epoch: "e"}, nil
	}
	var fold, whole present.Fold
	past, err := fold.Lately(12, present.Info, read)
	expect.NoError(t, err)
	rows := past.Rows.Rows(present.Info)
	if len(rows) < 12 || asked*40 >= len(all) {
		t.Errorf("%d rows after %d pages of %d events", len(rows), asked, len(all))
	}
	expect.Equal(t, "newest", past.Newest, int64(len(all)))
	if text := draw(rows); strings.Contains(text, "not_enforced") {
		t.Errorf("what holds the agent is told anew:\n%s", text)
	}
	var want present.List
	for i := range all {
		want.Put(whole.Event(&all[i])...)
	}
	past, err = fold.Lately(100_000, present.Debug, read)
	expect.NoError(t, err)
	expect.Equal(t, "all rows", draw(past.Rows.Rows(present.Debug)), draw(want.Rows(present.Debug)))
}
