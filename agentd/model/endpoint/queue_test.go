package endpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/test/expect"
)

// TestOrder holds any mixture of items to the order of their beginnings, each
// whole, with nothing kept back that could be said.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got []string
		q := NewItemQueue(func(ev model.Event) bool { got = append(got, ev.CallID+ev.Text); return true })
		var items []*QueuedItem
		var want [][]string
		var open []int
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			n := len(items)
			at := rapid.IntRange(0, len(open)).Draw(t, "item")
			switch {
			case at == len(open):
				items, want, open = append(items, &QueuedItem{}), append(want, []string{fmt.Sprint(n)}), append(open, n)
				q.Begin(items[n], model.Event{Kind: model.CallBegin, CallID: fmt.Sprint(n)})
			case rapid.Bool().Draw(t, "end"):
				q.End(items[open[at]])
				open = append(open[:at:at], open[at+1:]...)
			default:
				text := fmt.Sprintf("%d:%d", open[at], len(want[open[at]]))
				want[open[at]] = append(want[open[at]], text)
				q.Push(items[open[at]], model.Event{Kind: model.CallDelta, Text: text})
			}
			expect.NoError(t, q.Err())
			var all []string // up to the first that is open, and that as far as it came
			for i, it := range items {
				all = append(all, want[i]...)
				if !it.Ended() {
					break
				}
			}
			if strings.Join(got, " ") != strings.Join(all, " ") {
				t.Fatalf("passed on %v, want %v", got, all)
			}
		}
	})
}

func TestReaderThatHasEnoughStopsTheQueue(t *testing.T) {
	seen := 0
	q := NewItemQueue(func(model.Event) bool { seen++; return seen < 2 })
	var it QueuedItem
	q.Begin(&it, model.Event{Kind: model.MessageBegin})
	expect.NoError(t, q.Err())
	expect.Equal(t, "the item began with kind", it.Kind(), model.MessageBegin)
	q.Push(&it, model.Event{})
	q.Push(&it, model.Event{})
	expect.Equal(t, "the error of a reader that stops", q.Err(), ErrStopped)
	expect.Equal(t, "events that it got", seen, 2)
}

func TestWhatWaitsIsBounded(t *testing.T) {
	q := NewItemQueue(func(model.Event) bool { return true })
	var first, second QueuedItem
	q.Begin(&first, model.Event{})
	q.Begin(&second, model.Event{})
	ev := model.Event{Text: strings.Repeat("x", 1<<20)}
	for n := range 40 {
		q.Push(&second, ev)
		err := q.Err()
		if failed, ok := errors.AsType[*model.Error](err); ok && failed.Kind == model.KindProtocol && n > 30 {
			return
		} else if err != nil {
			t.Fatal(n, err)
		}
	}
	t.Error("any amount may wait")
}
