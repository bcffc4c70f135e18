package anthropic_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/responses"
	"holon/test/expect"
)

// Any events of a provider are read without a panic, and in the events that result
// each call and each thought is ended at most once and where it began.
func FuzzEvents(f *testing.F) {
	for _, events := range [][]string{
		{begin, text0, hello, stop0, endTurn, stopped},
		answer("tool_use", append(toolUse(0, "toolu_1", `{"a"`, `:1}`), toolUse(1, "toolu_2")...)...),
		answer("end_turn", blockStart(0, `{"type":"thinking","thinking":"t"}`),
			blockDelta(0, "signature_delta", "signature", "s"), blockStop(0),
			blockStart(1, `{"type":"redacted_thinking","data":"d"}`)),
		answer("refusal"), {`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`},
		{`{"type":"ping"}`, `{}`, `[`, `null`},
	} {
		var b bytes.Buffer
		for _, ev := range events {
			b.WriteString(ev + "\n")
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var open model.EventKind
		take := anthropic.Take("claude-opus-5", func(ev model.Event) bool {
			switch ev.Kind {
			case model.MessageBegin, model.ReasoningBegin, model.CallBegin:
				if open == model.CallBegin {
					t.Fatalf("%+v within a call", ev)
				}
				open = ev.Kind
			case model.CallDelta, model.CallEnd:
				if open != model.CallBegin {
					t.Fatalf("%+v outside of a call", ev)
				}
			case model.SummaryDelta, model.ReasoningEnd:
				if open != model.ReasoningBegin {
					t.Fatalf("%+v outside of a thought", ev)
				}
			case model.TextDelta, model.RefusalDelta, model.AnnotationAdded:
				if open != model.MessageBegin {
					t.Fatalf("%+v outside of a message", ev)
				}
			case model.Done:
				if open == model.CallBegin && ev.Stop == model.StopEnd {
					t.Fatal("a call has no end")
				}
			}
			if ev.Kind == model.CallEnd || ev.Kind == model.ReasoningEnd {
				open = 0
			}
			return true
		})
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if done, err := take(line); done || err != nil {
				return
			}
		}
	})
}

// The request for any conversation keeps the order that the API demands:
// sides take turns, the user is first and last, and each call has its result,
// among the first of the next message.
func FuzzConversation(f *testing.F) {
	f.Add("claude-opus-5", []byte(`[{"role":"user","content":"u"},{"type":"function_call","call_id":"c","name":"f",`+
		`"arguments":"{"},{"type":"function_call_output","call_id":"c","output":"o"}]`))
	f.Add("claude-haiku-4-5", []byte(`[{"role":"developer","content":"d"},{"type":"holon:tool_call",`+
		`"call_id":"c~aaaaaa","name":"f","arguments":"{}","output":"o"},{"role":"system","content":"s"},`+
		`{"role":"assistant","content":"a"}]`))
	f.Add("m", []byte(`[{"type":"reasoning","summary":[],"encrypted_content":"anthropic:{\"type\":\"thinking\",`+
		`\"thinking\":\"\",\"signature\":\"\"}"},{"type":"function_call_output","call_id":"x",`+
		`"output":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		var items responses.Items
		if json.Unmarshal(data, &items) != nil {
			return
		}
		body, _, err := anthropic.EncodeRequest(model.Request{Model: name, Input: items})
		if err != nil {
			return
		}
		var w struct {
			Messages []struct {
				Role    string
				Content []struct {
					Type, Text, ID string
					ToolUseID      string `json:"tool_use_id"`
				}
			}
		}
		expect.NoError(t, json.Unmarshal(body, &w))
		var open []string
		before := "" // either side may begin
		ids := make(map[string]bool)
		for i, m := range w.Messages {
			if len(m.Content) == 0 || (m.Role == "assistant") == (before == "assistant") && before != "" && m.Role != "system" ||
				m.Role == "system" && before != "user" {
				t.Fatalf("message %d of %s after %s: %s", i, m.Role, before, body)
			}
			var calls, results []string
			for _, b := range m.Content {
				switch b.Type {
				case "tool_use":
					if ids[b.ID] {
						t.Fatalf("the id %q twice: %s", b.ID, body)
					}
					ids[b.ID] = true
					calls = append(calls, b.ID)
				case "tool_result":
					results = append(results, b.ToolUseID)
				}
			}
			if !slices.Equal(results, open) || len(results) > 0 && m.Content[len(results)-1].Type != "tool_result" {
				t.Fatalf("message %d has the results of %v, not %v: %s", i, results, open, body)
			}
			open, before = calls, m.Role
		}
		if len(open) > 0 {
			t.Fatalf("the calls %v have no results: %s", open, body)
		}
	})
}
