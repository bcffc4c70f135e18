package conform_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/conform"
)

// object is one event as plain JSON.
type object = map[string]any

// legal returns a legal stream with every kind of item, decoded.
func legal(t testing.TB) []object {
	t.Helper()
	var events []object
	req, err := responses.DecodeRequest([]byte(`{"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := responses.NewEmitter(responses.NewResponse("resp_1", "m", 1, req), func(_ string, data []byte) error {
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			return err
		}
		events = append(events, o)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(e.Summary("s"), e.Text("hel"), e.Text("lo"))
	e.Annotate(responses.Annotation{Type: "url_citation", URL: "u", Title: "t"})
	err = errors.Join(err, e.Refusal("no"), e.BeginFunctionCall("call_1", "f"), e.Arguments("{}"),
		e.BeginFunctionCall("call_2", "f"),
		e.Complete(responses.Usage{}, 2))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func encode(t testing.TB, events []object) [][]byte {
	t.Helper()
	var lines [][]byte
	for _, ev := range events {
		b, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, b)
	}
	return lines
}

func check(c *conform.Checker, lines [][]byte) error {
	for _, line := range lines {
		if err := c.Event(line); err != nil {
			return err
		}
	}
	return c.End()
}

// find returns the index of the n-th event of a type, from 0.
func find(t testing.TB, events []object, typ string, n int) int {
	t.Helper()
	for i, ev := range events {
		if ev["type"] == typ {
			if n == 0 {
				return i
			}
			n--
		}
	}
	t.Fatalf("there is no %s", typ)
	return -1
}

// renumber makes the sequence numbers right again after an edit.
func renumber(events []object) {
	for i, ev := range events {
		ev["sequence_number"] = i
	}
}

func item(ev object) object     { return ev["item"].(object) }
func response(ev object) object { return ev["response"].(object) }

// Each case breaks one thing in a legal stream. The checker must name the rule
// and, where the place is given, the event.
func TestCheckerFindsViolations(t *testing.T) {
	set := func(typ string, n int, key string, v any) func(t *testing.T, evs []object) []object {
		return func(t *testing.T, evs []object) []object { evs[find(t, evs, typ, n)][key] = v; return evs }
	}
	drop := func(typ string, n int) func(t *testing.T, evs []object) []object {
		return func(t *testing.T, evs []object) []object {
			i := find(t, evs, typ, n)
			evs = slices.Delete(evs, i, i+1)
			renumber(evs)
			return evs
		}
	}
	double := func(typ string, n int) func(t *testing.T, evs []object) []object {
		return func(t *testing.T, evs []object) []object {
			i := find(t, evs, typ, n)
			var again object
			b, err := json.Marshal(evs[i])
			if err != nil || json.Unmarshal(b, &again) != nil {
				t.Fatal("copy event")
			}
			evs = slices.Insert(evs, i+1, again)
			renumber(evs)
			return evs
		}
	}
	in := func(typ string, n int, edit func(o object)) func(t *testing.T, evs []object) []object {
		return func(t *testing.T, evs []object) []object { edit(evs[find(t, evs, typ, n)]); return evs }
	}
	const added, done, completed = responses.EventItemAdded, responses.EventItemDone, responses.EventCompleted
	tests := []struct {
		name string
		rule conform.Rule
		edit func(t *testing.T, evs []object) []object
	}{
		{"number missing", conform.RuleShape, in(added, 0, func(o object) { delete(o, "sequence_number") })},
		{"number skipped", conform.RuleSequence, set(added, 1, "sequence_number", 99)},
		{"number a string", conform.RuleShape, set(added, 1, "sequence_number", "3")},
		{"no type", conform.RuleJSON, in(added, 0, func(o object) { delete(o, "type") })},
		{"empty type", conform.RuleJSON, set(added, 0, "type", "")},
		{"foreign event", conform.RuleGrammar, set(responses.EventTextDelta, 0, "type", "acme:trace")},
		{"unknown event", conform.RuleGrammar,
			set(responses.EventReasoningSummaryTextDelta, 0, "type", "response.reasoning_summary_text.more")},
		{"error event", conform.RuleGrammar, set(responses.EventTextDelta, 0, "type", "error")},
		{"null error key", conform.RuleErrorKey, set(responses.EventTextDelta, 0, "error", nil)},
		{"null logprobs", conform.RuleShape, set(responses.EventTextDelta, 0, "logprobs", nil)},

		{"created missing", conform.RuleCreated, drop(responses.EventCreated, 0)},
		{"created twice", conform.RuleGrammar, double(responses.EventCreated, 0)},
		{"created with output", conform.RuleCreated, func(t *testing.T, evs []object) []object {
			response(evs[0])["output"] = []any{item(evs[find(t, evs, done, 0)])}
			return evs
		}},
		{"in_progress missing", conform.RuleGrammar, drop(responses.EventInProgress, 0)},
		{"in_progress twice", conform.RuleGrammar, double(responses.EventInProgress, 0)},
		{"queued after in_progress", conform.RuleGrammar, func(t *testing.T, evs []object) []object {
			evs = double(responses.EventInProgress, 0)(t, evs)
			evs[2]["type"], response(evs[2])["status"] = responses.EventQueued, "queued"
			return evs
		}},
		{"wrong status", conform.RuleShape, in(responses.EventInProgress, 0, func(o object) {
			response(o)["status"] = "queued"
		})},
		{"other response", conform.RuleShape, in(responses.EventInProgress, 0, func(o object) {
			response(o)["id"] = "resp_2"
		})},
		{"response null", conform.RuleShape, set(responses.EventInProgress, 0, "response", nil)},

		{"terminal missing", conform.RuleTerminal, drop(completed, 0)},
		{"terminal twice", conform.RuleTerminal, double(completed, 0)},
		{"item open at the end", conform.RuleTerminal, drop(done, 3)},
		{"output empty at the end", conform.RuleFinal, in(completed, 0, func(o object) {
			response(o)["output"] = []any{}
		})},
		{"output changed at the end", conform.RuleFinal, in(completed, 0, func(o object) {
			response(o)["output"].([]any)[0].(object)["id"] = "rs_x"
		})},
		{"completed without time", conform.RuleShape, in(completed, 0, func(o object) {
			response(o)["completed_at"] = nil
		})},
		{"completed with an error", conform.RuleShape, in(completed, 0, func(o object) {
			response(o)["error"] = object{"code": "c", "message": "m"}
		})},
		{"output null", conform.RuleShape, in(completed, 0, func(o object) { response(o)["output"] = nil })},
		{"tools null", conform.RuleShape, in(completed, 0, func(o object) { response(o)["tools"] = nil })},
		{"key missing", conform.RuleShape, in(completed, 0, func(o object) { delete(response(o), "max_tool_calls") })},
		{"float time", conform.RuleShape, in(completed, 0, func(o object) { response(o)["created_at"] = 1.5 })},
		{"thin usage", conform.RuleShape, in(completed, 0, func(o object) {
			delete(response(o)["usage"].(object), "input_tokens_details")
		})},
		{"text without format", conform.RuleShape, in(completed, 0, func(o object) { response(o)["text"] = object{} })},

		{"added missing", conform.RuleGrammar, drop(added, 0)},
		{"added twice", conform.RuleGrammar, double(added, 1)},
		{"done missing", conform.RuleGrammar, drop(done, 0)},
		{"done twice", conform.RuleGrammar, double(done, 1)},
		{"output index wrong", conform.RuleOutput, set(added, 1, "output_index", 2)},
		{"output index missing", conform.RuleShape, in(done, 0, func(o object) { delete(o, "output_index") })},
		{"item null", conform.RuleShape, set(added, 0, "item", nil)},
		{"new item not in progress", conform.RuleShape, in(added, 0, func(o object) {
			item(o)["status"] = "completed"
		})},
		{"done item in progress", conform.RuleShape, in(done, 0, func(o object) { item(o)["status"] = "in_progress" })},
		{"item without status", conform.RuleShape, in(added, 0, func(o object) { delete(item(o), "status") })},
		{"incomplete item in the middle", conform.RuleShape, in(done, 0, func(o object) {
			item(o)["status"] = "incomplete"
		})},
		{"incomplete item, completed response", conform.RuleShape, func(t *testing.T, evs []object) []object {
			last := evs[find(t, evs, done, 3)]
			item(last)["status"] = "incomplete"
			response(evs[len(evs)-1])["output"].([]any)[3].(object)["status"] = "incomplete"
			return evs
		}},
		{"id empty", conform.RuleItemID, in(added, 0, func(o object) { item(o)["id"] = "" })},
		{"id changed at done", conform.RuleItemID, in(done, 0, func(o object) { item(o)["id"] = "rs_x" })},
		{"id changed in a delta", conform.RuleItemID, set(responses.EventTextDelta, 1, "item_id", "msg_x")},
		{"id used twice", conform.RuleItemID, func(t *testing.T, evs []object) []object {
			item(evs[find(t, evs, added, 1)])["id"] = item(evs[find(t, evs, added, 0)])["id"]
			return evs
		}},
		{"type changed at done", conform.RuleItemID, in(done, 0, func(o object) {
			item(o)["type"] = "compaction"
			item(o)["encrypted_content"] = ""
		})},
		{"foreign item", conform.RuleShape, in(added, 0, func(o object) { item(o)["type"] = "acme:thing" })},
		{"new message with content", conform.RuleShape, in(added, 1, func(o object) {
			item(o)["content"] = []any{object{"type": "output_text", "text": "x", "annotations": []any{}}}
		})},
		{"content null", conform.RuleShape, in(added, 1, func(o object) { item(o)["content"] = nil })},
		{"phase null", conform.RuleShape, in(added, 1, func(o object) { item(o)["phase"] = nil })},
		{"encrypted content null", conform.RuleShape, in(added, 0, func(o object) {
			item(o)["encrypted_content"] = nil
		})},
		{"content changed at done", conform.RuleFinal, in(done, 1, func(o object) { item(o)["content"] = []any{} })},
		{"summary changed at done", conform.RuleFinal, in(done, 0, func(o object) { item(o)["summary"] = []any{} })},

		{"call id empty", conform.RuleCallID, in(added, 2, func(o object) { item(o)["call_id"] = "" })},
		{"call id too long", conform.RuleCallID, in(added, 2, func(o object) {
			item(o)["call_id"] = strings.Repeat("c", 65)
		})},
		{"call id missing", conform.RuleShape, in(added, 2, func(o object) { delete(item(o), "call_id") })},
		{"call id equals id", conform.RuleCallID, in(added, 2, func(o object) { item(o)["call_id"] = item(o)["id"] })},
		{"call id used twice", conform.RuleCallID, in(added, 3, func(o object) { item(o)["call_id"] = "call_1" })},
		{"call id changed at done", conform.RuleCallID, in(done, 2, func(o object) { item(o)["call_id"] = "call_x" })},
		{"name changed at done", conform.RuleFinal, in(done, 2, func(o object) { item(o)["name"] = "g" })},
		{"arguments changed at done", conform.RuleFinal, in(done, 2, func(o object) { item(o)["arguments"] = "{ }" })},
		{"arguments not the deltas", conform.RuleFinal, set(responses.EventArgumentsDone, 0, "arguments", "{ }")},
		{"arguments done missing", conform.RuleGrammar, drop(responses.EventArgumentsDone, 1)},
		{"arguments done twice", conform.RuleGrammar, double(responses.EventArgumentsDone, 0)},
		{"arguments of another name", conform.RuleFinal, set(responses.EventArgumentsDone, 0, "name", "g")},
		{"new call with arguments", conform.RuleShape, in(added, 2, func(o object) { item(o)["arguments"] = "{" })},

		{"part added missing", conform.RuleGrammar, drop(responses.EventPartAdded, 0)},
		{"part added twice", conform.RuleGrammar, double(responses.EventPartAdded, 0)},
		{"part done missing", conform.RuleGrammar, drop(responses.EventPartDone, 0)},
		{"part done missing at the end of an item", conform.RuleGrammar, drop(responses.EventPartDone, 1)},
		{"part done twice", conform.RuleGrammar, double(responses.EventPartDone, 0)},
		{"part index wrong", conform.RulePart, set(responses.EventPartAdded, 1, "content_index", 0)},
		{"part index of a delta wrong", conform.RulePart, set(responses.EventTextDelta, 0, "content_index", 1)},
		{"part index missing", conform.RuleShape, in(responses.EventTextDelta, 0, func(o object) {
			delete(o, "content_index")
		})},
		{"summary index wrong", conform.RulePart, set(responses.EventReasoningSummaryPartAdded, 0, "summary_index", 1)},
		{"new part with text", conform.RuleShape, in(responses.EventPartAdded, 0, func(o object) {
			o["part"].(object)["text"] = "x"
		})},
		{"new refusal with text", conform.RuleShape, in(responses.EventPartAdded, 1, func(o object) {
			o["part"].(object)["refusal"] = "x"
		})},
		{"part of another item's kind", conform.RuleGrammar, in(responses.EventPartAdded, 0, func(o object) {
			o["part"] = object{"type": "reasoning_text", "text": ""}
		})},
		{"part null", conform.RuleShape, set(responses.EventPartAdded, 0, "part", nil)},
		{"part annotations null", conform.RuleShape, in(responses.EventPartAdded, 0, func(o object) {
			o["part"].(object)["annotations"] = nil
		})},
		{"part changed at done", conform.RuleFinal, in(responses.EventPartDone, 0, func(o object) {
			o["part"].(object)["text"] = "other"
		})},
		{"part of another type at done", conform.RuleFinal, in(responses.EventPartDone, 0, func(o object) {
			o["part"] = object{"type": "refusal", "refusal": ""}
		})},
		{"annotations lost at done", conform.RuleFinal, in(responses.EventPartDone, 0, func(o object) {
			o["part"].(object)["annotations"] = []any{}
		})},
		{"annotation index wrong", conform.RulePart, set(responses.EventAnnotationAdded, 0, "annotation_index", 1)},
		{"annotation thin", conform.RuleShape,
			set(responses.EventAnnotationAdded, 0, "annotation", object{"type": "url_citation"})},
		{"text done missing", conform.RuleGrammar, drop(responses.EventTextDone, 0)},
		{"text done twice", conform.RuleGrammar, double(responses.EventTextDone, 0)},
		{"text not the deltas", conform.RuleFinal, set(responses.EventTextDone, 0, "text", "hell")},
		{"delta lost", conform.RuleFinal, drop(responses.EventTextDelta, 0)},
		{"delta null", conform.RuleShape, set(responses.EventTextDelta, 0, "delta", nil)},
		{"delta after done", conform.RuleGrammar, func(t *testing.T, evs []object) []object {
			i, j := find(t, evs, responses.EventTextDelta, 1), find(t, evs, responses.EventTextDone, 0)
			evs[i], evs[j] = evs[j], evs[i]
			evs[i]["text"] = "hel"
			renumber(evs)
			return evs
		}},
		{"delta of another part's kind", conform.RuleGrammar,
			set(responses.EventRefusalDelta, 0, "type", responses.EventTextDelta)},
		{"refusal not the deltas", conform.RuleFinal, set(responses.EventRefusalDone, 0, "refusal", "yes")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := tt.edit(t, legal(t))
			var c conform.Checker
			err := check(&c, encode(t, events))
			v, ok := errors.AsType[*conform.Violation](err)
			switch {
			case !ok:
				t.Fatalf("found %v, want a violation of %s", err, tt.rule)
			case v.Rule != tt.rule:
				t.Fatalf("%+v: v.Rule = %q, want %q", tt, v.Rule, tt.rule)
			case v.Detail == "":
				t.Fatalf(`%+v: v.Detail = "", want another value`, tt)
			case v.Index < 0:
				t.Fatalf("%+v: v.Index = %d, want at least 0", tt, v.Index)
			case v.Index > int64(len(events)):
				t.Fatalf("%+v: v.Index = %d, want at most %d", tt, v.Index, int64(len(events)))
			}
			if again := c.End(); again != err {
				t.Errorf("the violation was forgotten: %v", again)
			}
		})
	}
}

func TestCheckerAcceptsLegalStreams(t *testing.T) {
	if err := check(new(conform.Checker), encode(t, legal(t))); err != nil {
		t.Error(err)
	}
	events := legal(t)
	i := find(t, events, responses.EventItemAdded, 1)
	extra := []object{
		{"type": "acme:trace", "x": 1},
		{"type": responses.EventItemAdded, "output_index": 1,
			"item": object{"type": "acme:thing", "id": "a_1", "status": "in_progress"}},
		{"type": responses.EventItemDone, "output_index": 1,
			"item": object{"type": "acme:thing", "id": "a_1", "status": "completed"}},
	}
	for _, ev := range events[i:] {
		if n, ok := ev["output_index"].(float64); ok {
			ev["output_index"] = n + 1
		}
	}
	events = slices.Insert(events, i, extra...)
	last := response(events[len(events)-1])
	last["output"] = slices.Insert(last["output"].([]any), 1, any(extra[2]["item"]))
	renumber(events)
	if err := check(&conform.Checker{Extensions: true}, encode(t, events)); err != nil {
		t.Errorf("with extensions: %v", err)
	}
	if err := check(new(conform.Checker), encode(t, events)); err == nil {
		t.Error("extensions were accepted unasked")
	}
}

func TestCheckerRefusesOtherJSON(t *testing.T) {
	for _, data := range []string{"", "null", "[]", "{", `{} {}`, "{\"type\":\n\"x\"}", strings.Repeat(`{"a":`, 300)} {
		var c conform.Checker
		if v, ok := errors.AsType[*conform.Violation](c.Event([]byte(data))); !ok || v.Rule != conform.RuleJSON {
			t.Errorf("%.20q: %v", data, v)
		}
	}
	if err := new(conform.Checker).End(); err == nil {
		t.Error("an empty stream was accepted")
	}
}

func TestCheckStream(t *testing.T) {
	lines := bytes.Join(encodeOrdered(t), []byte{'\n'})
	sse := string(stream.SSE.AppendEnd(stream.SSE.Append(nil, lines)))
	ndjson := string(stream.NDJSON.Append(nil, lines))
	first := strings.Index(sse, "\n\n") + 2
	tests := []struct {
		name    string
		framing stream.Framing
		in      string
		rule    conform.Rule // "" for none
	}{
		{"sse", stream.SSE, sse, ""},
		{"ndjson", stream.NDJSON, ndjson, ""},
		{"sse with heartbeats", stream.SSE, ": ping\n" + sse[:first] + ": ping\n" + sse[first:], ""},
		{"heartbeat with a blank line", stream.SSE, ": ping\n\n" + sse, conform.RuleFraming},
		{"CRLF", stream.SSE, strings.ReplaceAll(sse, "\n", "\r\n"), conform.RuleFraming},
		{"ids", stream.SSE, "id: 0\n" + sse, conform.RuleFraming},
		{"two data lines", stream.SSE, "data: x\n" + sse, conform.RuleFraming},
		{"two event lines", stream.SSE, "event: x\n" + sse, conform.RuleFraming},
		{"event is not the type", stream.SSE,
			strings.Replace(sse, "event: response.created", "event: response.queued", 1), conform.RuleFraming},
		{"event missing", stream.SSE, strings.Replace(sse, "event: response.created\n", "", 1), conform.RuleFraming},
		{"[DONE] missing", stream.SSE, strings.TrimSuffix(sse, "data: [DONE]\n\n"), conform.RuleFraming},
		{"[DONE] cut", stream.SSE, strings.TrimSuffix(sse, "\n"), conform.RuleFraming},
		{"[DONE] without line end", stream.SSE, strings.TrimSuffix(sse, "\n\n"), conform.RuleFraming},
		{"after [DONE]", stream.SSE, sse + ": ping\n", conform.RuleFraming},
		{"[DONE] too early", stream.SSE, sse[:first] + "data: [DONE]\n\n", conform.RuleTerminal},
		{"empty sse", stream.SSE, "", conform.RuleTerminal},
		{"empty ndjson", stream.NDJSON, "", conform.RuleTerminal},
		{"[DONE] in ndjson", stream.NDJSON, ndjson + "[DONE]\n", conform.RuleJSON},
		{"blank line in ndjson", stream.NDJSON, "\n" + ndjson, conform.RuleFraming},
		{"last line cut", stream.NDJSON, ndjson[:len(ndjson)-1], conform.RuleFraming},
		{"event broken", stream.SSE, strings.Replace(sse, `"sequence_number":1}`, `"sequence_number":2}`, 1),
			conform.RuleSequence},
	}
	for _, tt := range tests {
		err := conform.CheckStream(iotest.HalfReader(strings.NewReader(tt.in)), tt.framing)
		v, ok := errors.AsType[*conform.Violation](err)
		if tt.rule == "" && err != nil || tt.rule != "" && (!ok || v.Rule != tt.rule) {
			t.Errorf("%s: %v, want a violation of %q", tt.name, err, tt.rule)
		}
	}
	broken := errors.New("connection reset")
	if err := conform.CheckStream(iotest.ErrReader(broken), stream.SSE); !errors.Is(err, broken) {
		t.Errorf("error of the reader became %v", err)
	}
}

// encodeOrdered is the legal stream as the emitter wrote it, type first.
func encodeOrdered(t testing.TB) [][]byte {
	t.Helper()
	var lines [][]byte
	for _, ev := range legal(t) {
		typ, err := json.Marshal(ev["type"])
		if err != nil {
			t.Fatal(err)
		}
		delete(ev, "type")
		rest, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, append(append([]byte(`{"type":`), typ...), append([]byte{','}, rest[1:]...)...))
	}
	return lines
}

func FuzzChecker(f *testing.F) {
	lines := encodeOrdered(f)
	f.Add(bytes.Join(lines, []byte{'\n'}), false)
	f.Add(stream.SSE.AppendEnd(stream.SSE.Append(nil, bytes.Join(lines, []byte{'\n'}))), true)
	f.Fuzz(func(t *testing.T, data []byte, asSSE bool) {
		framing := stream.NDJSON
		if asSSE {
			framing = stream.SSE
		}
		if conform.CheckStream(bytes.NewReader(data), framing) != nil {
			return
		}
		// The real decoder must read a conforming stream to its end.
		n := 0
		for ev, err := range stream.Events(bytes.NewReader(data), framing) {
			if err != nil {
				t.Fatalf("a conforming stream cannot be read: %v\n%s", err, data)
			}
			if _, err := responses.DecodeEvent(ev); err != nil {
				t.Fatalf("a conforming event cannot be decoded: %v\n%s", err, ev)
			}
			n++
		}
		if n < 2 {
			t.Fatalf("a conforming stream has %d events", n)
		}
	})
}
