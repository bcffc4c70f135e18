package openai_test

import (
	"fmt"
	"testing"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/modeltest"
)

func begunItem(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{%s}}`, index, item)
}

func pieceOf(index, part int, text string) string {
	return fmt.Sprintf(`{"type":"response.output_text.delta","output_index":%d,"content_index":%d,"delta":%q}`, index,
		part, text)
}

func summaryOf(part int, text string) string {
	return fmt.Sprintf(`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":%d,"delta":%q}`,
		part, text)
}

func textDone(part int, text string) string {
	return fmt.Sprintf(`{"type":"response.output_text.done","output_index":0,"content_index":%d,"text":%q}`, part, text)
}

func saidItem(id, text string) string {
	return fmt.Sprintf(`{"type":"message",%s"content":[{"type":"output_text","text":%q}]}`, id, text)
}

func completedWith(items string) string {
	return `{"type":"response.completed","response":{"id":"resp_1","output":[` + items + `]}}`
}

// The terminal event's items are those of the stream, wherever they are listed, and each is passed on once.
func TestOutputOfTheTerminalEvent(t *testing.T) {
	begin := func(a, b string) []string {
		return []string{begunItem(0, `"type":"reasoning","id":"r"`), begunItem(1, `"type":"message"`+a),
			begunItem(2, `"type":"message"`+b), pieceOf(1, 0, "one"), pieceOf(2, 0, "two")}
	}
	const idA, idB = `,"id":"a"`, `,"id":"b"`
	inA, inB := saidItem(`"id":"a",`, "one."), saidItem(`"id":"b",`, "two.")
	call := func(index int, id string) string {
		return begunItem(index, fmt.Sprintf(`"type":"function_call","call_id":%q,"name":"f"`, id))
	}
	ran := func(id, args string) string {
		return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"f","arguments":%q}`, id, args)
	}
	both := modeltest.Answer{Text: "one.two.", Opaque: []string{""}}
	tests := []struct {
		name   string
		events []string
		want   modeltest.Answer
	}{
		{"all", append(begin(idA, idB), completedWith(`{"type":"reasoning","id":"r"},`+inA+","+inB)), both},
		{"without the reasoning", append(begin(idA, idB), completedWith(inA+","+inB)), both},
		{"without the first message", append(begin(idA, idB), completedWith(inB)),
			modeltest.Answer{Text: "onetwo.", Opaque: []string{""}}},
		{"in another order", append(begin(idA, idB), completedWith(inB+","+inA)), both},
		{"without ids and reasoning", append(begin("", ""),
			completedWith(saidItem("", "one.")+","+saidItem("", "two."))), both},
		{"with new ids, without the reasoning", append(begin(idA, idB),
			completedWith(saidItem(`"id":"x",`, "one.")+","+saidItem(`"id":"y",`, "two."))), both},
		{"with one item more", append(begin(idA, idB), completedWith(inA+","+saidItem(`"id":"c",`, "three")+","+inB)),
			modeltest.Answer{Text: "one.two.three", Opaque: []string{""}}},
		{"calls in another order", []string{call(0, "c0"), call(1, "c1"),
			completedWith(ran("c1", `{"b":1}`) + "," + ran("c0", `{"a":1}`))},
			modeltest.Answer{Calls: []string{`c0 f {"a":1}`, `c1 f {"b":1}`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantAnswer(t, tt.events, tt.want) })
	}
}

// Servers repeat what began, and leave out the ends of parts.
func TestRepeatsAndParts(t *testing.T) {
	message := begunItem(0, `"type":"message","id":"m"`)
	called := begunItem(0, `"type":"function_call","id":"f1","call_id":"c","name":"f"`)
	created := `{"type":"response.created","response":{"id":"resp_1","output":[]}}`
	running := `{"type":"response.in_progress","response":{"id":"resp_1","output":[]}}`
	other := begunItem(1, `"type":"web_search_call","id":"w"`)
	tests := []struct {
		name   string
		events []string
		want   modeltest.Answer
	}{
		{"the beginnings twice", []string{created, created, running, message, message, other, other, running,
			pieceOf(0, 0, "a"), created, message, pieceOf(0, 0, "b"), completed}, modeltest.Answer{Text: "ab"}},
		{"a call's beginning twice", []string{called, called, completedWith(
			`{"type":"function_call","id":"f1","call_id":"c","name":"f","arguments":"{}"}`)},
			modeltest.Answer{Calls: []string{"c f {}"}}},
		{"parts whose texts end later", []string{message, pieceOf(0, 0, "one"), pieceOf(0, 1, "tw"),
			textDone(0, "one"), textDone(1, "two"), completed}, modeltest.Answer{Text: "one¶two"}},
		{"a part that ends while the next is open", []string{message, pieceOf(0, 0, "one"), pieceOf(0, 1, "tw"),
			`{"type":"response.content_part.done","output_index":0,"content_index":0}`, pieceOf(0, 1, "o"),
			textDone(1, "two."), `{"type":"response.content_part.done","output_index":0,"content_index":1}`,
			textDone(0, "one"), completed}, modeltest.Answer{Text: "one¶two."}},
		{"parts that the item completes", []string{message, pieceOf(0, 0, "one"), pieceOf(0, 1, "tw"),
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[` +
				`{"type":"output_text","text":"one"},{"type":"output_text","text":"two"}]}}`, completed},
			modeltest.Answer{Text: "one¶two"}},
		{"a part of which only the whole comes", []string{message, pieceOf(0, 0, "one"), textDone(1, "two"), completed},
			modeltest.Answer{Text: "one¶two"}},
		{"a part that is longer than was said when it ended", []string{message, pieceOf(0, 0, "on"),
			`{"type":"response.content_part.done","output_index":0,"content_index":0}`, textDone(0, "one"),
			pieceOf(0, 1, "two"), completed}, modeltest.Answer{Text: "one¶two"}},
		{"the rest of a part behind the next one", []string{message, pieceOf(0, 0, "on"), pieceOf(0, 1, "two"),
			textDone(0, "one"), completed}, modeltest.Answer{Text: "on¶two"}},
		{"the rest of an item behind its end", []string{message, pieceOf(0, 0, "on"),
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[` +
				`{"type":"output_text","text":"on"}]}}`, completedWith(saidItem(`"id":"m",`, "one"))},
			modeltest.Answer{Text: "on"}},
		{"an item that ends and is listed", []string{message, pieceOf(0, 0, "one"), pieceOf(0, 1, "two"),
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[]}}`,
			completedWith(`{"type":"message","id":"m","content":[{"type":"output_text","text":"one"},` +
				`{"type":"output_text","text":"two"}]}`)}, modeltest.Answer{Text: "one¶two"}},
		{"an empty part before the one with the text", []string{message, pieceOf(0, 1, "one"),
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[` +
				`{"type":"output_text","text":""},{"type":"output_text","text":"one"}]}}`, completed},
			modeltest.Answer{Text: "one"}},
		{"the rests of both parts", []string{message, pieceOf(0, 0, "on"), pieceOf(0, 1, "tw"),
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[` +
				`{"type":"output_text","text":"one"},{"type":"output_text","text":"two"}]}}`, completed},
			modeltest.Answer{Text: "on¶two"}},
		{"parts that are mixed", []string{message, pieceOf(0, 0, "a"), pieceOf(0, 1, "b"), pieceOf(0, 0, "c"), completed},
			modeltest.Answer{Text: "a¶b¶c"}},
		{"parts of a summary", []string{begunItem(0, `"type":"reasoning"`), summaryOf(0, "a"), summaryOf(1, "b"),
			summaryOf(1, "c"), completed}, modeltest.Answer{Summary: []string{"a", "bc"}, Opaque: []string{""}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantAnswer(t, tt.events, tt.want) })
	}
}

func wantAnswer(t *testing.T, events []string, want modeltest.Answer) {
	t.Helper()
	got, e := ask(t.Context(), t, serve(t, false, replay(events, true)), model.Request{})
	if e != nil || got.Stop != model.StopEnd || got.RequestID != "resp_1" {
		t.Errorf("the answer of %q stops with %q, %v, want %q, nil", got.RequestID, got.Stop, e, model.StopEnd)
	}
	got.Stop, got.RequestID, got.Usage = "", "", responses.Usage{}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
