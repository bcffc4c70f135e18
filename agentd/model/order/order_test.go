package order_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/agentd/model/order"
)

// TestOrder holds any mixture of items to the order of their beginnings, each
// whole, with nothing kept back that could be said.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got []string
		q := order.New(func(ev model.Event) bool { got = append(got, ev.CallID+ev.Text); return true })
		var items []*order.Item
		var want [][]string
		var open []int
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			n := len(items)
			at := rapid.IntRange(0, len(open)).Draw(t, "item")
			var err error
			switch {
			case at == len(open):
				items, want, open = append(items, &order.Item{}), append(want, []string{fmt.Sprint(n)}), append(open, n)
				err = q.Begin(items[n], model.Event{Kind: model.CallBegin, CallID: fmt.Sprint(n)})
			case rapid.Bool().Draw(t, "end"):
				err = q.End(items[open[at]])
				open = append(open[:at:at], open[at+1:]...)
			default:
				text := fmt.Sprintf("%d:%d", open[at], len(want[open[at]]))
				want[open[at]] = append(want[open[at]], text)
				err = q.Push(items[open[at]], model.Event{Kind: model.CallDelta, Text: text})
			}
			if err != nil {
				t.Fatal(err)
			}
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

func TestMore(t *testing.T) {
	var got []bool
	q := order.New(func(ev model.Event) bool { got = append(got, ev.More); return len(got) < 4 })
	var it order.Item
	q.More(true)
	err := errors.Join(q.Begin(&it, model.Event{Kind: model.MessageBegin}), q.Emit(model.Event{Kind: model.Done}))
	q.More(false)
	err = errors.Join(err, q.Push(&it, model.Event{Kind: model.TextDelta}))
	if err != nil || fmt.Sprint(got) != "[true false false]" || it.Kind() != model.MessageBegin {
		t.Errorf("%v %v", got, err)
	}
	if err := q.Push(&it, model.Event{}); !errors.Is(err, endpoint.ErrStopped) {
		t.Errorf("a reader that has enough: %v", err)
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	q := order.New(func(model.Event) bool { return true })
	var first, second order.Item
	if err := errors.Join(q.Begin(&first, model.Event{}), q.Begin(&second, model.Event{})); err != nil {
		t.Fatal(err)
	}
	ev := model.Event{Text: strings.Repeat("x", 1<<20)}
	for n := range 40 {
		err := q.Push(&second, ev)
		if failed, ok := errors.AsType[*model.Error](err); ok && failed.Kind == model.KindProtocol && n > 30 {
			return
		} else if err != nil {
			t.Fatal(n, err)
		}
	}
	t.Error("any amount may wait")
}
