package conform_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/conform"
	"holon/test/expect"
)

// object is one event as plain JSON.
type object = map[string]any

// legal returns a legal stream with every kind of item, decoded.
func legal(t testing.TB) []object {
	t.Helper()
	var events []object
	req, err := responses.DecodeRequest([]byte(`{"input":"x"}`))
	expect.NoError(t, err)
	e, err := responses.NewEmitter(responses.NewResponse("resp_1", "m", 1, req), func(_ string, data []byte) error {
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			return err
		}
		events = append(events, o)
		return nil
	})
	expect.NoError(t, err)
	err = errors.Join(e.Summary("s"), e.Text("hel"), e.Text("lo"))
	e.Annotate(responses.Annotation{Type: "url_citation", URL: "u", Title: "t"})
	err = errors.Join(err, e.Refusal("no"), e.BeginFunctionCall("call_1", "f"), e.Arguments("{}"),
		e.BeginFunctionCall("call_2", "f"),
		e.Complete(responses.Usage{}, 2))
	expect.NoError(t, err)
	return events
}

func encode(t testing.TB, events []object) [][]byte {
	t.Helper()
	var lines [][]byte
	for _, ev := range events {
		b, err := json.Marshal(ev)
		expect.NoError(t, err)
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

// edit breaks something in a stream.
type edit func(t testing.TB, events []object) []object

// absent, as the value of set, takes the key away.
type absent struct{}

// set gives the n-th event of a type another value at a path.
func set(typ string, n int, path string, v any) edit {
	return func(t testing.TB, events []object) []object {
		var at any = events[find(t, events, typ, n)]
		keys := strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			if list, ok := at.([]any); ok {
				i, err := strconv.Atoi(key)
				expect.NoError(t, err)
				at = list[i]
				continue
			}
			at = at.(object)[key]
		}
		last := keys[len(keys)-1]
		if _, ok := v.(absent); ok {
			delete(at.(object), last)
		} else {
			at.(object)[last] = v
		}
		return events
	}
}

// drop leaves the n-th event of a type out; double sends it twice. The numbers are right afterwards.
func drop(typ string, n int) edit {
	return func(t testing.TB, events []object) []object {
		i := find(t, events, typ, n)
		return renumbered(slices.Delete(events, i, i+1))
	}
}

func double(typ string, n int) edit {
	return func(t testing.TB, events []object) []object {
		i := find(t, events, typ, n)
		var again object
		expect.NoError(t, json.Unmarshal(encode(t, events)[i], &again))
		return renumbered(slices.Insert(events, i+1, again))
	}
}

func renumbered(events []object) []object {
	for i, ev := range events {
		ev["sequence_number"] = i
	}
	return events
}

// all makes several edits, one after the other.
func all(edits ...edit) edit {
	return func(t testing.TB, events []object) []object {
		for _, e := range edits {
			events = e(t, events)
		}
		return events
	}
}

// delayed puts the n-th event of a type after the first of another, and makes that fit it.
func delayed(typ string, n int, after string) edit {
	return func(t testing.TB, events []object) []object {
		i, j := find(t, events, typ, n), find(t, events, after, 0)
		events[i], events[j] = events[j], events[i]
		events[i]["text"] = "hel"
		return renumbered(events)
	}
}

// sameID gives the first two items one id.
func sameID(t testing.TB, events []object) []object {
	id := events[find(t, events, added, 0)]["item"].(object)["id"]
	return set(added, 1, "item.id", id)(t, events)
}

const (
	created, progress, completed   = responses.EventCreated, responses.EventInProgress, responses.EventCompleted
	added, done                    = responses.EventItemAdded, responses.EventItemDone
	partAdded, partDone            = responses.EventPartAdded, responses.EventPartDone
	textDelta, textDone            = responses.EventTextDelta, responses.EventTextDone
	argumentsDone, annotationAdded = responses.EventArgumentsDone, responses.EventAnnotationAdded
)

// Each case breaks one thing in a legal stream, of four items: reasoning, a message, and two calls. The checker must
// name the rule.
func TestCheckerFindsViolations(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule conform.Rule
		edit edit
	}{
		{"no type", conform.RuleJSON, set(added, 0, "type", absent{})},
		{"empty type", conform.RuleJSON, set(added, 0, "type", "")},
		{"number missing", conform.RuleShape, set(added, 0, "sequence_number", absent{})},
		{"number skipped", conform.RuleSequence, set(added, 1, "sequence_number", 99)},
		{"number a string", conform.RuleShape, set(added, 1, "sequence_number", "3")},
		{"foreign event", conform.RuleGrammar, set(textDelta, 0, "type", "acme:trace")},
		{"unknown event", conform.RuleGrammar, set(textDelta, 0, "type", "response.output_text.more")},
		{"error event", conform.RuleGrammar, set(textDelta, 0, "type", "error")},
		{"null error key", conform.RuleErrorKey, set(textDelta, 0, "error", nil)},
		{"null logprobs", conform.RuleShape, set(textDelta, 0, "logprobs", nil)},

		{"created missing", conform.RuleCreated, drop(created, 0)},
		{"created twice", conform.RuleGrammar, double(created, 0)},
		{"created with output", conform.RuleCreated,
			set(created, 0, "response.output", []any{
				object{"type": "compaction", "id": "cmp_1", "status": "completed", "encrypted_content": ""}})},
		{"in_progress missing", conform.RuleGrammar, drop(progress, 0)},
		{"in_progress twice", conform.RuleGrammar, double(progress, 0)},
		{"queued after in_progress", conform.RuleGrammar,
			all(double(progress, 0),
				set(progress, 1, "response.status", "queued"), set(progress, 1, "type", responses.EventQueued))},
		{"wrong status", conform.RuleShape, set(progress, 0, "response.status", "queued")},
		{"other response", conform.RuleShape, set(progress, 0, "response.id", "resp_2")},
		{"response null", conform.RuleShape, set(progress, 0, "response", nil)},

		{"terminal missing", conform.RuleTerminal, drop(completed, 0)},
		{"terminal twice", conform.RuleTerminal, double(completed, 0)},
		{"item open at the end", conform.RuleTerminal, drop(done, 3)},
		{"output empty at the end", conform.RuleFinal, set(completed, 0, "response.output", []any{})},
		{"output changed at the end", conform.RuleFinal, set(completed, 0, "response.output.0.id", "rs_x")},
		{"completed without time", conform.RuleShape, set(completed, 0, "response.completed_at", nil)},
		{"completed with an error", conform.RuleShape,
			set(completed, 0, "response.error", object{"code": "c", "message": "m"})},
		{"output null", conform.RuleShape, set(completed, 0, "response.output", nil)},
		{"tools null", conform.RuleShape, set(completed, 0, "response.tools", nil)},
		{"key missing", conform.RuleShape, set(completed, 0, "response.max_tool_calls", absent{})},
		{"float time", conform.RuleShape, set(completed, 0, "response.created_at", 1.5)},
		{"tokens not in digits", conform.RuleShape,
			set(completed, 0, "response.usage.total_tokens", json.RawMessage("1e3"))},
		{"thin usage", conform.RuleShape, set(completed, 0, "response.usage.input_tokens_details", absent{})},
		{"text without format", conform.RuleShape, set(completed, 0, "response.text", object{})},

		{"added missing", conform.RuleGrammar, drop(added, 0)},
		{"added twice", conform.RuleGrammar, double(added, 1)},
		{"done missing", conform.RuleGrammar, drop(done, 0)},
		{"done twice", conform.RuleGrammar, double(done, 1)},
		{"output index wrong", conform.RuleOutput, set(added, 1, "output_index", 2)},
		{"output index missing", conform.RuleShape, set(done, 0, "output_index", absent{})},
		{"item null", conform.RuleShape, set(added, 0, "item", nil)},
		{"new item not in progress", conform.RuleShape, set(added, 0, "item.status", "completed")},
		{"done item in progress", conform.RuleShape, set(done, 0, "item.status", "in_progress")},
		{"item without status", conform.RuleShape, set(added, 0, "item.status", absent{})},
		{"incomplete item in the middle", conform.RuleShape, set(done, 0, "item.status", "incomplete")},
		{"incomplete item, completed response", conform.RuleShape,
			all(set(done, 3, "item.status", "incomplete"),
				set(completed, 0, "response.output.3.status", "incomplete"))},
		{"id empty", conform.RuleItemID, set(added, 0, "item.id", "")},
		{"id changed at done", conform.RuleItemID, set(done, 0, "item.id", "rs_x")},
		{"id changed in a delta", conform.RuleItemID, set(textDelta, 1, "item_id", "msg_x")},
		{"id used twice", conform.RuleItemID, sameID},
		{"type changed at done", conform.RuleItemID,
			all(set(done, 0, "item.encrypted_content", ""), set(done, 0, "item.type", "compaction"))},
		{"foreign item", conform.RuleShape, set(added, 0, "item.type", "acme:thing")},
		{"new message with content", conform.RuleShape,
			set(added, 1, "item.content", []any{object{"type": "output_text", "text": "x", "annotations": []any{}}})},
		{"content null", conform.RuleShape, set(added, 1, "item.content", nil)},
		{"phase null", conform.RuleShape, set(added, 1, "item.phase", nil)},
		{"encrypted content null", conform.RuleShape, set(added, 0, "item.encrypted_content", nil)},
		{"content changed at done", conform.RuleFinal, set(done, 1, "item.content", []any{})},
		{"summary changed at done", conform.RuleFinal, set(done, 0, "item.summary", []any{})},

		{"call id empty", conform.RuleCallID, set(added, 2, "item.call_id", "")},
		{"call id too long", conform.RuleCallID, set(added, 2, "item.call_id", strings.Repeat("c", 65))},
		{"call id missing", conform.RuleShape, set(added, 2, "item.call_id", absent{})},
		{"call id used twice", conform.RuleCallID, set(added, 3, "item.call_id", "call_1")},
		{"call id equals id", conform.RuleCallID,
			all(set(added, 2, "item.id", "x"), set(added, 2, "item.call_id", "x"))},
		{"call id changed at done", conform.RuleCallID, set(done, 2, "item.call_id", "call_x")},
		{"name changed at done", conform.RuleFinal, set(done, 2, "item.name", "g")},
		{"arguments changed at done", conform.RuleFinal, set(done, 2, "item.arguments", "{ }")},
		{"arguments not the deltas", conform.RuleFinal, set(argumentsDone, 0, "arguments", "{ }")},
		{"arguments done missing", conform.RuleGrammar, drop(argumentsDone, 1)},
		{"arguments done twice", conform.RuleGrammar, double(argumentsDone, 0)},
		{"arguments of another name", conform.RuleFinal, set(argumentsDone, 0, "name", "g")},
		{"new call with arguments", conform.RuleShape, set(added, 2, "item.arguments", "{")},

		{"part added missing", conform.RuleGrammar, drop(partAdded, 0)},
		{"part added twice", conform.RuleGrammar, double(partAdded, 0)},
		{"part done missing", conform.RuleGrammar, drop(partDone, 0)},
		{"part done missing at the end of an item", conform.RuleGrammar, drop(partDone, 1)},
		{"part done twice", conform.RuleGrammar, double(partDone, 0)},
		{"part index wrong", conform.RulePart, set(partAdded, 1, "content_index", 0)},
		{"part index of a delta wrong", conform.RulePart, set(textDelta, 0, "content_index", 1)},
		{"part index missing", conform.RuleShape, set(textDelta, 0, "content_index", absent{})},
		{"summary index wrong", conform.RulePart,
			set(responses.EventReasoningSummaryPartAdded, 0, "summary_index", 1)},
		{"new part with text", conform.RuleShape, set(partAdded, 0, "part.text", "x")},
		{"new refusal with text", conform.RuleShape, set(partAdded, 1, "part.refusal", "x")},
		{"part of another item's kind", conform.RuleGrammar,
			set(partAdded, 0, "part", object{"type": "reasoning_text", "text": ""})},
		{"part null", conform.RuleShape, set(partAdded, 0, "part", nil)},
		{"part annotations null", conform.RuleShape, set(partAdded, 0, "part.annotations", nil)},
		{"part changed at done", conform.RuleFinal, set(partDone, 0, "part.text", "other")},
		{"part of another type at done", conform.RuleFinal,
			set(partDone, 0, "part", object{"type": "refusal", "refusal": ""})},
		{"annotations lost at done", conform.RuleFinal, set(partDone, 0, "part.annotations", []any{})},
		{"annotation index wrong", conform.RulePart, set(annotationAdded, 0, "annotation_index", 1)},
		{"annotation thin", conform.RuleShape, set(annotationAdded, 0, "annotation", object{"type": "url_citation"})},
		{"text done missing", conform.RuleGrammar, drop(textDone, 0)},
		{"text done twice", conform.RuleGrammar, double(textDone, 0)},
		{"text not the deltas", conform.RuleFinal, set(textDone, 0, "text", "hell")},
		{"delta lost", conform.RuleFinal, drop(textDelta, 0)},
		{"delta null", conform.RuleShape, set(textDelta, 0, "delta", nil)},
		{"delta after done", conform.RuleGrammar, delayed(textDelta, 1, textDone)},
		{"delta of another part's kind", conform.RuleGrammar, set(responses.EventRefusalDelta, 0, "type", textDelta)},
		{"refusal not the deltas", conform.RuleFinal, set(responses.EventRefusalDone, 0, "refusal", "yes")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			events := tt.edit(t, legal(t))
			var c conform.Checker
			err := check(&c, encode(t, events))
			v, ok := errors.AsType[*conform.Violation](err)
			if !ok || v.Rule != tt.rule || v.Detail == "" || v.Index < 0 || v.Index > int64(len(events)) {
				t.Fatalf("found %v, want a violation of %s", err, tt.rule)
			}
			if again := c.End(); again != err {
				t.Errorf("the violation was forgotten: %v", again)
			}
		})
	}
}

func TestCheckerAcceptsLegalStreams(t *testing.T) {
	expect.NoError(t, check(new(conform.Checker), encode(t, legal(t))))
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
	last := events[len(events)-1]["response"].(object)
	last["output"] = slices.Insert(last["output"].([]any), 1, any(extra[2]["item"]))
	renumbered(events)
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
		err := conform.CheckStream([]byte(tt.in), tt.framing)
		v, ok := errors.AsType[*conform.Violation](err)
		if tt.rule == "" && err != nil || tt.rule != "" && (!ok || v.Rule != tt.rule) {
			t.Errorf("%s: %v, want a violation of %q", tt.name, err, tt.rule)
		}
	}
}

// encodeOrdered is the legal stream as the emitter wrote it, type first.
func encodeOrdered(t testing.TB) [][]byte {
	t.Helper()
	var lines [][]byte
	for _, ev := range legal(t) {
		typ, err := json.Marshal(ev["type"])
		expect.NoError(t, err)
		delete(ev, "type")
		rest, err := json.Marshal(ev)
		expect.NoError(t, err)
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
		if conform.CheckStream(data, framing) != nil {
			return
		}
		// The real decoder must read a conforming stream to its end.
		n := 0
		for ev, err := range stream.NewDecoder(bytes.NewReader(data), framing).Events() {
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
