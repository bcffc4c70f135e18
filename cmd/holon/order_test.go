package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/egress"
)

// shown is a shower that notes what it is told.
type shown struct {
	mu   sync.Mutex
	told []string
}

func (s *shown) Phase(name string)          { s.note(name) }
func (s *shown) Egress(egress.Fact)         {}
func (s *shown) Fact(ev turns.RuntimeEvent) { s.note(ev.Type + ev.ToolCallID) }
func (s *shown) Event(ev responses.Event)   { s.note(kindOf(ev)) }

func (s *shown) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.told, " ")
}

func item(t string, id string) responses.Event {
	return responses.Event{Type: t, Item: &responses.Message{ID: id}}
}

func kindOf(ev responses.Event) string {
	kind := map[string]string{responses.EventItemAdded: "(", responses.EventItemDone: ")",
		responses.EventTextDelta: "…"}[ev.Type]
	return kind + strings.TrimPrefix(messageOf(ev), responses.PrefixMessage)
}

func fact(kind, call string, messages ...string) turns.RuntimeEvent {
	payload, err := json.Marshal(turns.Sampled{Messages: messages})
	if err != nil {
		panic(err)
	}
	return turns.RuntimeEvent{Type: kind, ToolCallID: call, Payload: payload}
}

// What comes on two connections is shown as it happened, however they are interleaved. The turn has two rounds with a
// call of a tool each, of which the second says nothing, and an answer.
func TestOrdered(t *testing.T) {
	message := func(id string) []func(*ordered) {
		return []func(*ordered){
			func(o *ordered) { o.Event(item(responses.EventItemAdded, id)) },
			func(o *ordered) { o.Event(responses.Event{Type: responses.EventTextDelta, ItemID: id}) },
			func(o *ordered) { o.Event(item(responses.EventItemDone, id)) },
		}
	}
	events := append(message("msg_1"), message("msg_3")...)
	facts := []func(*ordered){}
	for _, ev := range []turns.RuntimeEvent{fact(turns.ModelRequested, ""), fact(turns.ModelCompleted, "", "msg_1"),
		fact(turns.ToolResult, "1"), fact(turns.ModelRequested, ""), fact(turns.ModelCompleted, ""),
		fact(turns.ToolResult, "2"), fact(turns.ModelRequested, ""), fact(turns.ModelCompleted, "", "msg_3")} {
		facts = append(facts, func(o *ordered) { o.Fact(ev) })
	}
	for _, live := range []bool{false, true} {
		want := "model.requested )1 model.completed tool.result1 model.requested model.completed tool.result2 " +
			"model.requested )3 model.completed stop"
		for first := range len(facts) + 1 { // facts, then all that is said, then the other facts
			t.Run(fmt.Sprint(live, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					got := &shown{}
					o := newOrdered(got, live)
					for _, do := range facts[:first] {
						do(o)
					}
					for _, do := range events {
						do(o)
					}
					time.Sleep(noFacts / 2)
					for _, do := range facts[first:] {
						do(o)
					}
					o.Phase("stop")
					text := got.String()
					for _, piece := range []string{"(1 ", "…1 ", "(3 ", "…3 "} {
						if live && !strings.Contains(text, piece) {
							t.Errorf("%s lacks %q", text, piece)
						}
						text = strings.Replace(text, piece, "", 1)
					}
					if text != want {
						t.Errorf("shown is\n%s, want\n%s", text, want)
					}
				})
			})
		}
	}
}

// A message is shown while it is written once no fact comes any more, and is not held up for ever by facts that do not
// come at all.
func TestOrderedIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &shown{}
		o := newOrdered(got, true)
		o.Fact(fact(turns.ModelRequested, ""))
		o.Event(item(responses.EventItemAdded, "msg_1"))
		time.Sleep(noFacts)
		synctest.Wait()
		if want := "model.requested (1"; got.String() != want {
			t.Errorf("shown is %q, want %q", got, want)
		}
		o.Event(item(responses.EventItemDone, "msg_1"))
		o.Event(item(responses.EventItemAdded, "msg_2"))
		o.Fact(fact(turns.ModelCompleted, "", "msg_1"))
		time.Sleep(lateFacts / 2)
		synctest.Wait()
		if want := "model.requested (1 )1 model.completed"; got.String() != want {
			t.Errorf("shown is %q, want %q", got, want)
		}
		time.Sleep(lateFacts)
		synctest.Wait()
		if want := "model.requested (1 )1 model.completed (2"; got.String() != want {
			t.Errorf("shown is %q, want %q", got, want)
		}
	})
}
