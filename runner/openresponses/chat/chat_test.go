package chat

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// What a request means is in the body of the response, or refused by its name.
func TestDecode(t *testing.T) {
	for _, tc := range []struct{ name, body, want, param string }{
		{"plain", `{"model":"p/m","messages":[{"role":"user","content":"hi"}],"temperature":0.50}`,
			`{"model":"p/m","temperature":0.50,"input":[{"type":"message","role":"user",
			"content":[{"type":"input_text","text":"hi"}]}],"stream":false,"store":false}`, ""},
		{"all", `{"messages":[{"role":"system","content":[{"type":"text","text":"be"}]},
			{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x","detail":"low"}},
			{"type":"file","file":{"file_data":"data:y","filename":"f"}}]},
			{"role":"assistant","content":null,"refusal":"no","tool_calls":[{"id":"c","type":"function",
			"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"out"}],
			"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
			"tool_choice":{"type":"function","function":{"name":"f"}},"max_tokens":7,"reasoning_effort":"low",
			"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{},"strict":true}},
			"verbosity":"low","stream":true,"store":true,"seed":1,"holon":{"workspace":"/w"},"metadata":{"a":"b"}}`,
			`{"metadata":{"a":"b"},"holon":{"workspace":"/w"},"input":[
			{"type":"message","role":"system","content":[{"type":"input_text","text":"be"}]},
			{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:x","detail":"low"},
			{"type":"input_file","file_data":"data:y","filename":"f"}]},
			{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"out"}],
			"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}],
			"tool_choice":{"type":"function","name":"f"},"max_output_tokens":7,"reasoning":{"effort":"low"},
			"text":{"format":{"type":"json_schema","name":"s","schema":{},"strict":true},"verbosity":"low"},
			"stream":true,"store":true}`, ""},
		{"no messages", `{}`, "", "messages"},
		{"role", `{"messages":[{"role":"user","content":"x"},{"role":"king"}]}`, "", "messages[1].role"},
		{"part", `{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`, "", "messages[0].content[0].type"},
		{"content", `{"messages":[{"role":"user","content":7}]}`, "", "messages[0].content"},
		{"choices", `{"messages":[{"role":"user","content":"x"}],"n":2}`, "", "n"},
		{"stop", `{"messages":[{"role":"user","content":"x"}],"stop":["a"]}`, "", "stop"},
		{"tool", `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"custom"}]}`, "", "tools[0].type"},
		{"choice", `{"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"custom"}}`, "", "tool_choice"},
		{"format", `{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema"}}`, "",
			"response_format.json_schema"},
		{"type", `{"messages":7}`, "", "messages"},
	} {
		q, err := Decode([]byte(tc.body))
		if tc.param != "" {
			if e := responses.AsError(err); err == nil || e.Param != tc.param || e.Status() >= 500 {
				t.Errorf("%s: %v, want an error about %s", tc.name, err, tc.param)
			}
			continue
		}
		expect.NoError(t, err)
		var got, want any
		expect.NoError(t, json.Unmarshal(q.Body, &got))
		expect.NoError(t, json.Unmarshal([]byte(tc.want), &want))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s", tc.name, q.Body)
		}
		if _, err := responses.DecodeRequest(q.Body); err != nil && !strings.Contains(tc.body, "workspace") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// Chunks do not depend on the framing of the events, nor on where the text is cut.
func TestChunks(t *testing.T) {
	const events = `{"type":"response.created","response":{"id":"resp_1","created_at":5,"model":"p/m"}}
{"type":"response.output_text.delta","output_index":0,"delta":"a"}
{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f"}}
{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}
{"type":"response.output_text.delta","output_index":2,"delta":"b"}
{"type":"response.refusal.delta","output_index":2,"delta":"no"}
{"type":"response.completed","response":{"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}}
`
	lines := strings.ReplaceAll(events, "\n", "\n\n")
	sse := "event: x\n" + strings.ReplaceAll(lines, `{"type":"resp`, `data: {"type":"resp`) + ": ping\n\ndata: [DONE]\n\n"
	want, err := os.ReadFile(filepath.Join("testdata", "chunks.txt"))
	expect.NoError(t, err)
	for name, text := range map[string]string{"ndjson": events, "sse": sse} {
		for _, size := range []int{1, 7, len(text)} {
			rec := httptest.NewRecorder()
			w := NewWriter(rec, Request{Stream: true, IncludeUsage: true})
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				_, err := w.Write([]byte(rest[:n]))
				expect.NoError(t, err)
				rest = rest[n:]
			}
			expect.NoError(t, w.Finish())
			expect.Equal(t, name, rec.Body.String(), string(want))
		}
	}
}

// A failed turn ends the chunks with its error.
func TestFailedChunks(t *testing.T) {
	for _, text := range []string{
		`{"type":"response.failed","response":{"error":{"code":"model_error","message":"broken"}}}`,
		`{"type":"error","error":{"code":"model_error","message":"broken"}}`,
	} {
		rec := httptest.NewRecorder()
		w := NewWriter(rec, Request{Stream: true})
		_, err := w.Write([]byte(text + "\n"))
		expect.NoError(t, err)
		expect.Contains(t, "chunk", rec.Body.String(), `data: {"error":{"message":"broken"`)
		if strings.Contains(rec.Body.String(), "[DONE]") {
			t.Error("a failed turn is done")
		}
	}
}

func TestReasons(t *testing.T) {
	for body, want := range map[string]string{
		`{"output":[{"type":"message","content":[{"text":"a"}]},{"type":"reasoning"},
			{"type":"message","content":[{"text":"b"},{"text":"c"},{"refusal":"no"}]}]}`: //
		`"content":"a\n\nbc","refusal":"no"},"finish_reason":"stop"`,
		`{"output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}`://
		`"content":null,"refusal":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"`,
		`{"incomplete_details":{"reason":"max_output_tokens"}}`: `"finish_reason":"length"`,
		`{"incomplete_details":{"reason":"content_filter"}}`:    `"finish_reason":"content_filter"`,
	} {
		rec := httptest.NewRecorder()
		w := NewWriter(rec, Request{})
		_, err := w.Write([]byte(body))
		expect.NoError(t, err)
		expect.NoError(t, w.Finish())
		expect.Contains(t, body, rec.Body.String(), want)
	}
}
