package openai

import (
	"bytes"
	"errors"
	"testing"

	"holon/agentd/model"
	"holon/internal/providers"
)

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
