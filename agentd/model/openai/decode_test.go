package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"holon/agentd/model"
	"holon/internal/providers"
)

// What the fast path accepts means the same to encoding/json.
func FuzzReadDelta(f *testing.F) {
	for _, seed := range []string{
		`{"type":"response.output_text.delta","item_id":"m","output_index":3,"content_index":0,"delta":"héllo",` +
			`"logprobs":[],"sequence_number":17,"obfuscation":"x"}`,
		`{"type":"response.function_call_arguments.delta","delta":"{\"a\":\n1}","output_index":0}`,
		` { "delta" : "\ud83d\ude00" , "type" : "response.refusal.delta" } `,
		`{"delta":"a","delta":"b","type":"response.output_text.delta"}`,
		`{"Delta":"a","type":"response.output_text.delta"}`,
		"{\"type\":\"response.output_text.delta\",\"delta\":\"\xff\"}",
		`{"type":"response.output_text.delta","delta":"x","output_index":01}`,
		`{"type":"response.output_text.delta","delta":"x","output_index":1.5}`,
		`{"type":"response.output_text.delta","delta":"x"`,
		`{"type":"response.output_text.delta","delta":"x\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, ok := readDelta(data)
		if !ok {
			return
		}
		var want struct {
			Type        string         `json:"type"`
			OutputIndex int            `json:"output_index"`
			Delta       model.WireText `json:"delta"`
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("accepted %q: %v", data, err)
		}
		switch {
		case d.kind != deltaKind(want.Type):
			t.Fatalf("d.kind = %d, want %d", d.kind, deltaKind(want.Type))
		case d.index != want.OutputIndex:
			t.Fatalf("d.index = %d, want %d", d.index, want.OutputIndex)
		case d.text != want.Delta:
			t.Fatalf("d.text = %q, want %q", d.text, want.Delta)
		}
	})
}

func TestReadDeltaTakesOrdinaryEvents(t *testing.T) {
	for _, ev := range []string{
		`{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,` +
			`"content_index":0,"delta":" step","logprobs":[],"obfuscation":"WBqp7jCBiUu"}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":5,"item_id":"fc_1","output_index":1,` +
			`"delta":"{\"cmd\":\"a\\n\"","obfuscation":""}`,
		`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,` +
			`"delta":"**Calcul"}`,
	} {
		if d, ok := readDelta([]byte(ev)); !ok || d.text == "" {
			t.Errorf("%s is left to the slow path", ev)
		}
	}
}

// Any events in any order cause no panic, and items that begin one
// after the other.
func FuzzAssembly(f *testing.F) {
	f.Add([]byte(`{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}
{"type":"response.output_text.delta","output_index":0,"delta":"x"}
{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"f","call_id":"c"}}
{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}
{"type":"response.output_item.done","output_index":0,"item":{"type":"message"}}
{"type":"response.completed","response":{"output":[]}}`))
	f.Add([]byte(`{"type":"response.output_item.done","output_index":-1,"item":{"type":"reasoning",` +
		`"summary":[{"type":"summary_text","text":"a"}]}}
{"type":"response.reasoning_summary_part.done","output_index":-1}
{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`))
	f.Add([]byte(`{"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","name":"f",` +
		`"call_id":"c"}}
{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"a\"\ud83d"}
{"type":"response.custom_tool_call_input.done","output_index":0,"input":"a\"😀"}
{"type":"response.completed","response":{"output":[]}}`))
	f.Add([]byte(`{"type":"error","error":"x"}`))
	f.Add([]byte(`{"type":"response.output_item.added","output_index":0,"item":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		open := model.EventKind(0)
		a := newAssembly(providers.OpenAI, freeform{"f": "text"}, func(ev model.Event) bool {
			switch ev.Kind {
			case model.MessageBegin, model.ReasoningBegin, model.CallBegin:
				open = ev.Kind
			case model.TextDelta, model.RefusalDelta, model.AnnotationAdded:
				if open != model.MessageBegin {
					t.Fatalf("%+v outside of a message", ev)
				}
			case model.CallDelta, model.CallEnd:
				if open != model.CallBegin {
					t.Fatalf("%+v outside of a call", ev)
				}
			case model.SummaryDelta, model.SummaryPartEnd, model.ReasoningDelta, model.ReasoningEnd:
				if open != model.ReasoningBegin {
					t.Fatalf("%+v outside of reasoning", ev)
				}
			}
			return true
		})
		for line := range bytes.Lines(data) {
			done, err := a.Take(line)
			if err != nil {
				var e *model.Error
				if !errors.As(err, &e) {
					t.Fatalf("an error of another type: %v", err)
				}
				return
			}
			if done {
				return
			}
		}
	})
}
