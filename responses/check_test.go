package responses_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holon/responses"
)

// Every bound holds exactly at its edge. N stands for that many characters in
// the body; a character may be two bytes.
func TestBounds(t *testing.T) {
	tests := []struct {
		body  string
		edge  int
		param string
	}{
		{`{"input":"N"}`, 10 << 20, "input"},
		{`{"input":[{"type":"function_call","call_id":"N","name":"f"}]}`, 64, "input[0].call_id"},
		{`{"input":[{"type":"function_call_output","call_id":"N","output":""}]}`, 64, "input[0].call_id"},
		{`{"input":[{"type":"function_call","call_id":"c","name":"N"}]}`, 64, "input[0].name"},
		{`{"tools":[{"type":"function","name":"N"}]}`, 64, "tools[0].name"},
		{`{"text":{"format":{"type":"json_schema","name":"N"}}}`, 64, "text.format.name"},
		{`{"prompt_cache_key":"N"}`, 64, "prompt_cache_key"},
		{`{"safety_identifier":"N"}`, 64, "safety_identifier"},
		{`{"metadata":{"k":"N"}}`, 512, "metadata.k"},
		{`{"metadata":{"N":"v"}}`, 64, "metadata"},
		{`{"holon":{"session_id":"N"}}`, 128, "holon.session_id"},
	}
	for _, tt := range tests {
		for _, char := range []string{"x", "ä"} {
			if char == "ä" && (strings.Contains(tt.param, "name") || strings.Contains(tt.param, "_id") ||
				tt.edge > 1000) {
				continue // names are ASCII, call ids are bounded in bytes
			}
			for over, want := range []string{"", tt.param} {
				body := strings.Replace(tt.body, "N", strings.Repeat(char, tt.edge+over), 1)
				_, err := responses.DecodeRequest([]byte(body))
				e, _ := errors.AsType[*responses.Error](err)
				if want == "" && err != nil || want != "" && (e == nil || e.Param != want || len(e.Message) > 400) {
					t.Errorf("%s with %d of %q: %v", tt.body, tt.edge+over, char, err)
				}
			}
		}
	}
	for body, ok := range map[string]bool{
		`{"max_output_tokens":1}`: true, `{"max_output_tokens":0}`: false, `{"max_tool_calls":1}`: true,
		`{"max_tool_calls":0}`: false,
		`{"top_logprobs":0}`:   true, `{"top_logprobs":20}`: true, `{"top_logprobs":21}`: false,
		`{"top_logprobs":-1}`: false,
		allowed(1):            true, allowed(128): true, allowed(0): false, allowed(129): false,
		pairs(16): true, pairs(17): false, tools(1024): true, tools(1025): false,
		`{"max_output_tokens":9223372036854775807}`: true, `{"max_output_tokens":9223372036854775808}`: false,
		`{"temperature":1e400}`: false, `{"temperature":1e308}`: false,
	} {
		if _, err := responses.DecodeRequest([]byte(body)); (err == nil) != ok {
			t.Errorf("%.80s: %v", body, err)
		}
	}
}

func allowed(n int) string {
	return `{"tool_choice":{"type":"allowed_tools","tools":[` +
		strings.TrimSuffix(strings.Repeat(`{"type":"function","name":"f"},`, n), ",") + `]}}`
}

func tools(n int) string {
	return `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"type":"x"},`, n), ",") + `]}`
}

func pairs(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	return `{"metadata":{` + strings.Join(list, ",") + `}}`
}

// Habits of clients that other servers refuse.
func TestTolerates(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","input":"x","user":"u","prompt":{"id":"p"},"conversation":"conv_1","context_management":` +
			`[{"type":"compaction"}],"prompt_cache_retention":"24h","prompt_cache_options":{},"moderation":"low",` +
			`"client_metadata":{"a":1},"stream_options":{"include_obfuscation":true}}`,
		`{"input":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"input_text","text":"b"}]},` +
			`{"role":"assistant","content":[{"type":"output_text","text":"c","annotations":null,"logprobs":null}]},` +
			`{"role":"user","content":[{"type":"output_text","text":"d"}]}]}`,
		`{"input":[{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"t"}],` +
			`"encrypted_content":"e","status":null}]}`,
		`{"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},` +
			`{"type":"input_image","image_url":"https://x/i.png"},{"type":"input_file","file_url":"https://x/f"},` +
			`{"type":"input_video","video_url":"https://x/v"}]}]}`,
		`{"input":[{"type":"web_search_call","id":"ws_1","status":"searching","action":{}},{"type":"acme:thing",` +
			`"id":"x","status":"failed"},{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"p"},` +
			`{"type":"custom_tool_call_output","call_id":"c","output":"ok"}]}`,
		`{"tools":[{"type":"function","name":"shell","strict":false,"parameters":{"type":"object",` +
			`"properties":{"command":{"type":"array","items":{"type":"string"}}}}},{"type":"custom",` +
			`"name":"apply_patch","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},` +
			`{"type":"local_shell"},{"type":"web_search","external_web_access":false},{"type":"namespace",` +
			`"name":"mcp__x","tools":[]},{"type":"acme:search"}]}`,
		`{"tools":[{"name":"f","parameters":null,"description":null,"strict":null}]}`,
		`{"include":["reasoning.encrypted_content","file_search_call.results","web_search_call.action.sources"],` +
			`"reasoning":{"effort":"minimal","summary":null,"generate_summary":"auto"},"service_tier":"standard"}`,
		`{"text":{"format":{"type":"json_schema"}}}`, `{"text":{"format":null,"verbosity":null}}`, `{"text":{}}`,
		`{"include":null,"truncation":null,"stream":null,"background":null,"store":null,"service_tier":null}`,
		`{"background":true}`, `{"background":false,"store":false}`,
		`{"temperature":0,"top_p":1,"presence_penalty":-2}`, `{"temperature":-0.0}`, `{"temperature":2e0}`,
	} {
		r, err := responses.DecodeRequest([]byte(body))
		if err != nil {
			t.Errorf("%.200s: %v", body, err)
		} else if r.ShowToolCalls {
			t.Errorf("%.200s: asks for tool calls", body)
		}
	}
}

func TestAsksForToolCalls(t *testing.T) {
	for _, body := range []string{`{"include":["holon:tool_calls"]}`, `{"tools":[{"type":"holon:tool_call"}]}`,
		`{"tools":[{"type":"function","name":"f"},{"type":"holon:tool_call"}]}`} {
		r, err := responses.DecodeRequest([]byte(body))
		if err != nil || !r.ShowToolCalls {
			t.Errorf("%s: %v, %+v", body, err, r)
		}
	}
}
