package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/conform"
	"holon/test/conform/schema"
	"holon/test/expect"
)

// moody is a model that does anything a provider may do, and stops anywhere.
type moody struct {
	rounds [][]model.Event
	cut    int // after so many events of all rounds, -1 for never
	again  int // where it is cut next
	how    error
	cancel context.CancelCauseFunc // set when how is a cause
	said   int
	round  int
}

// Stream implements model.Transport.
func (m *moody) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		events := answer
		if m.round < len(m.rounds) {
			events = m.rounds[m.round]
		}
		m.round++
		for _, ev := range events {
			if m.said == m.cut {
				if m.cancel == nil {
					m.cut, m.again = m.again, -1
					yield(model.Event{}, m.how)
					return
				}
				m.cancel(m.how)
				yield(model.Event{}, model.Cancelled(ctx))
				return
			}
			m.said++
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func drawText(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a", "<b>\n", "日本語", "\x00\u2028", "\xff", "\xe6\x97", "\xa5",
		`{"a":1}`}), rapid.StringN(0, 12, 40)).Draw(t, "text")
}

func drawRound(t *rapid.T, calls *int) (events []model.Event) {
	for range rapid.IntRange(0, 4).Draw(t, "items") {
		switch rapid.IntRange(0, 4).Draw(t, "item") {
		case 0:
			events = append(events, ev(model.ReasoningBegin))
			for range rapid.IntRange(0, 3).Draw(t, "summary") {
				kind := rapid.SampledFrom([]model.EventKind{model.SummaryDelta, model.SummaryDelta,
					model.SummaryPartEnd, model.ReasoningDelta}).Draw(t, "kind")
				events = append(events, ev(kind, drawText(t)))
			}
			if rapid.Bool().Draw(t, "ended") {
				events = append(events, ev(model.ReasoningEnd,
					rapid.SampledFrom([]string{"", "opaque"}).Draw(t, "encrypted")))
			}
		case 1, 2:
			events = append(events, model.Event{Kind: model.MessageBegin,
				Phase: rapid.SampledFrom([]responses.Phase{"", "", responses.PhaseCommentary}).Draw(t, "phase")})
			for range rapid.IntRange(0, 4).Draw(t, "pieces") {
				e := ev(rapid.SampledFrom([]model.EventKind{model.TextDelta, model.TextDelta, model.RefusalDelta,
					model.AnnotationAdded}).Draw(t, "kind"), drawText(t))
				switch {
				case e.Kind == model.AnnotationAdded:
					e.Annotation = &responses.Annotation{Type: "url_citation", URL: "https://example.com", Title: "t",
						EndIndex: 1}
				case e.Kind == model.TextDelta && rapid.Bool().Draw(t, "logprobs"):
					e.Logprobs = []responses.LogProb{{Token: e.Text, Logprob: -0.5,
						TopLogprobs: []responses.TopLogProb{{Token: "x", Bytes: []int{120}}}}}
				}
				events = append(events, e)
			}
		default:
			*calls++
			id, args := fmt.Sprintf("call_%d", *calls),
				rapid.SampledFrom([]string{"", "{}", `{"q":"日本"}`, "{\xff"}).Draw(t, "args")
			name := rapid.SampledFrom([]string{"Run", "ask", "ask", "Fly"}).Draw(t, "name")
			at := rapid.IntRange(0, len(args)).Draw(t, "split")
			events = append(events, model.Event{Kind: model.CallBegin, CallID: id, Name: name},
				ev(model.CallDelta, args[:at]), ev(model.CallDelta, args[at:]),
				model.Event{Kind: model.CallEnd, CallID: id, Name: name, Text: args})
		}
	}
	return append(events, done(rapid.SampledFrom([]model.Stop{model.StopEnd, model.StopEnd, model.StopEnd,
		model.StopMaxTokens, model.StopContentFilter}).Draw(t, "stop")))
}

func drawBody(t *rapid.T) string {
	pick := func(key string, values ...string) string {
		if v := rapid.SampledFrom(append(values, "", "")).Draw(t, key); v != "" {
			return fmt.Sprintf(`,%q:%s`, key, v)
		}
		return ""
	}
	return `{"input":"x"` + clientTool +
		pick("tool_choice", `"none"`, `"required"`, `{"type":"function","name":"ask"}`,
			`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"Run"}]}`) +
		pick("parallel_tool_calls", "false") + pick("max_tool_calls", "1", "3") + pick("text",
		`{"format":{"type":"json_object"}}`) +
		pick("include", `["reasoning.encrypted_content","holon:tool_calls","message.output_text.logprobs"]`,
			`["message.output_text.logprobs"]`, `["reasoning.encrypted_content"]`) +
		pick("store", "false") + "}"
}

// Whatever a model does, and wherever the turn is cut, its stream is legal, so that its deltas alone give the final
// response, and fits the protocol's own schemas; and the output, sent back, is what the turn left in its history.
func TestEveryTurn(t *testing.T) {
	doc, err := schema.Official()
	expect.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		calls := 0
		m := &moody{cut: -1, again: -1}
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			m.rounds = append(m.rounds, drawRound(t, &calls))
		}
		ctx := context.Background()
		switch rapid.IntRange(0, 3).Draw(t, "end") {
		case 0:
			m.cut, m.how = rapid.IntRange(0, 20).Draw(t, "cut"),
				&model.Error{Kind: model.KindTransport, Message: "broke"}
			m.again = m.cut + rapid.IntRange(-1, 10).Draw(t, "again") // -1: not again
		case 1:
			m.cut, m.how = rapid.IntRange(0, 20).Draw(t, "cut"),
				rapid.SampledFrom([]error{ErrTimeout, ErrShutdown, ErrCancelled}).Draw(t, "cause")
			ctx, m.cancel = context.WithCancelCause(ctx)
			defer m.cancel(nil)
		}
		s := newStage(t, drawBody(t))
		s.turn.Model.Transport = model.Retry(m, "fake/m", model.Policy{Retries: rapid.IntRange(0, 2).Draw(t, "retries")})
		result, err := s.turn.Run(ctx)
		expect.NoError(t, err)
		show := s.turn.Request.ShowToolCalls
		if err := legal(s.stream, show); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(s.stream, "\n"))
		}
		if !show && strings.Contains(strings.Join(s.stream, ""), "holon:") {
			t.Fatalf("something of ours is on a standard stream:\n%s", strings.Join(s.stream, "\n"))
		}
		seen := make(map[string]bool)
		for _, line := range s.stream {
			if show {
				break // the protocol's schemas know no items of ours
			}
			typ := responses.EventType([]byte(line))
			if seen[typ] && typ != responses.EventItemDone || typ == responses.EventInProgress {
				continue // this is the slow part, and others of the type differ in their text only
			}
			seen[typ] = true
			expect.NoError(t, doc.Event([]byte(line)))
		}
		made := len(turns.Handed(s.em.Response().Output)) + result.ToolCalls.Total
		if limit := s.turn.Request.MaxToolCalls; limit != nil && made > *limit {
			t.Fatalf("%d calls are over the limit of %d", made, *limit)
		}
		if show {
			sameHistory(t, s)
		}
	})
}

func legal(stream []string, extensions bool) error {
	c := conform.Checker{Extensions: extensions}
	for _, line := range stream {
		if !utf8.ValidString(line) {
			return fmt.Errorf("no UTF-8: %q", line)
		}
		if err := c.Event([]byte(line)); err != nil {
			return err
		}
	}
	return c.End()
}

// sameHistory compares what the turn left for previous_response_id with its
// output as the next request's input.
func sameHistory(t *rapid.T, s *stage) {
	var final responses.Event
	final, err := responses.DecodeEvent([]byte(s.stream[len(s.stream)-1]))
	expect.NoError(t, err)
	output, err := json.Marshal(final.Response.Output)
	expect.NoError(t, err)
	next, err := responses.DecodeRequest([]byte(`{"input":` + string(output) + `}`))
	if err != nil {
		t.Fatalf("the output is refused as input: %v\n%s", err, output)
	}
	discarded := discardedItems(t, s.journal.events)
	sent := slices.DeleteFunc(next.Input, func(item responses.Item) bool { // as the server does
		c, ok := item.(*responses.FunctionCall)
		return ok && c.Status == responses.ItemIncomplete || slices.Contains(discarded, item.ItemID())
	})
	kept := responses.Items(s.journal.items)
	a, errA := json.Marshal(kept)
	b, errB := json.Marshal(sent)
	expect.NoError(t, errors.Join(errA, errB))
	var x, y any
	expect.NoError(t, errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)))
	if diff := cmp.Diff(x, y); diff != "" {
		t.Fatalf("the history and the output differ (-history +output):\n%s", diff)
	}
}

// discardedItems are the items of the output that are in no later request, as the record has it.
func discardedItems(t expect.Test, facts []turns.RuntimeEvent) (ids []string) {
	t.Helper()
	for _, fact := range facts {
		var p struct {
			IDs []string `json:"discarded_item_ids"`
		}
		expect.NoError(t, json.Unmarshal(fact.Payload, &p))
		ids = append(ids, p.IDs...)
	}
	return ids
}

// However a provider tears its text apart, every byte arrives.
func TestTornText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"日本語 größer 🙂🙃", "\u0000\u2028é"})).Draw(t,
			"text")
		split := func(kind model.EventKind, text string) (events []model.Event) {
			for text != "" {
				n := rapid.IntRange(1, min(4, len(text))).Draw(t, "piece")
				events, text = append(events, ev(kind, text[:n])), text[n:]
			}
			return events
		}
		args, err := json.Marshal(map[string]string{"q": whole})
		expect.NoError(t, err)
		s := newStage(t, `{"input":"x"`+clientTool+`}`, join(
			ev(model.ReasoningBegin), split(model.SummaryDelta, whole), ev(model.ReasoningEnd),
			ev(model.MessageBegin), split(model.TextDelta, whole), split(model.RefusalDelta, whole),
			model.Event{Kind: model.CallBegin, CallID: "c", Name: "ask"}, split(model.CallDelta, string(args)),
			ev(model.CallEnd, string(args)), done(model.StopEnd)))
		if _, err := s.turn.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		expect.NoError(t, legal(s.stream, false))
		output := s.em.Response().Output
		var got []string
		for _, p := range output[0].(*responses.Reasoning).Summary {
			got = append(got, p.Text)
		}
		for _, p := range output[1].(*responses.Message).Content {
			got = append(got, p.Text+p.Refusal)
		}
		got = append(got, output[2].(*responses.FunctionCall).Arguments)
		want := []string{whole, whole, whole, string(args)}
		if whole == "" {
			want = []string{string(args)}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
