package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"holon/internal/providers"
)

// A body passes when everyone reads the same in it, and when nothing in it makes
// the provider do more than answer.
func TestGrammarHasOneReading(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for _, tc := range []struct {
		name, body, model string
		refused           bool
	}{
		{name: "first", body: `{"model":"m","metadata":[{"model":"x"}]}`, model: "m"},
		{name: "late", body: ` {"input" : "a\"b\\" , "metadata":[1,-2.5e+3,true,null,{},[]], "model"  :  "m" } ` + "\n",
			model: "m"},
		{name: "in strings only", body: `{"input":"\"model\":\"x\"","model":"m"}`, model: "m"},
		{name: "unicode", body: `{"model":"m","input":"héé 😀 \ud83d\ude00 \u0041"}`, model: "m"},
		{name: "deep", body: `{"model":"m","metadata":` + deep[1:len(deep)-1] + `}`, model: "m"},
		{name: "keys of values that are free", body: `{"model":"m","metadata":{"a":1,"a":2,"\u0062":{"Model":"x"}}}`,
			model: "m"},

		{name: "escaped name", body: `{"mod\u0065l":"m"}`, refused: true},
		{name: "escaped value", body: `{"model":"\u006d"}`, model: "m"},
		{name: "twice", body: `{"model":"m","model":"m"}`, refused: true},
		{name: "twice, escaped", body: `{"model":"m","\u006dodel":"x"}`, refused: true},
		{name: "another key twice", body: `{"model":"m","tools":[],"tools":[]}`, refused: true},
		{name: "a key within twice", body: `{"model":"m","tools":[{"type":"function","type":"function"}]}`,
			refused: true},
		{name: "a key within in another case", body: `{"model":"m","tools":[{"type":"function","Type":"function"}]}`,
			refused: true},
		{name: "another case", body: `{"Model":"x"}`, refused: true},
		{name: "twice in another case", body: `{"model":"m","MODEL":"x"}`, refused: true},
		{name: "none", body: `{"input":"x"}`, refused: true},
		{name: "within only", body: `{"metadata":{"model":"m"}}`, refused: true},
		{name: "no string", body: `{"model":["m"]}`, refused: true},
		{name: "null", body: `{"model":null}`, refused: true},
		{name: "a type that is null", body: `{"model":"m","tools":[{"type":null}]}`, refused: true},
		{name: "name with NUL", body: `{"model":"m","model\u0000":"x"}`, refused: true},
		{name: "name with a space", body: `{"model":"m","model ":"x"}`, refused: true},
		{name: "name in other letters", body: `{"model":"m","mоdel":"x"}`, refused: true},
		{name: "a long name", body: `{"model":"m","` + strings.Repeat("a", 600) + `":1}`, refused: true},
		{name: "array", body: `[{"model":"m"}]`, refused: true},
		{name: "two objects", body: `{"model":"m"}{"model":"x"}`, refused: true},
		{name: "something behind", body: `{"model":"m"} x`, refused: true},
		{name: "cut", body: `{"model":"m"`, refused: true},
		{name: "empty", body: ``, refused: true},
		{name: "byte order mark", body: "\uFEFF" + `{"model":"m"}`, refused: true},
		{name: "comment", body: `{"model":"m"/*,"*/,"model":"x"}`, refused: true},
		{name: "single quotes", body: `{"model":"m",'model':"x"}`, refused: true},
		{name: "line end in a string", body: "{\"model\":\"m\",\"input\":\"\n\"}", refused: true},
		{name: "half a rune before a quote", body: "{\"model\":\"m\",\"input\":\"\xe2\",\"model\":\"x\"}",
			refused: true},
		{name: "a surrogate", body: "{\"model\":\"m\",\"input\":\"\xed\xa0\x80\"}", refused: true},
		{name: "too deep", body: `{"model":"m","metadata":` + deep + `}`, refused: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			model, err := modelOf(respond, []byte(tc.body))
			if tc.refused != (err != nil) || model != tc.model && err == nil {
				t.Errorf("model %q, %v", model, err)
			}
		})
	}
}

const respond, chat, messages = providers.OpenResponses, providers.ChatCompletions, providers.AnthropicMessages

// A request that makes a provider search, fetch, run or remember something is refused
// unless the operator allows it by name.
func TestGrammarRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		contract    providers.Contract
		body, allow string
	}{
		{respond, `"tools":[{"type":"web_search"}]`, "web_search"},
		{respond, `"tools":[{"type":"web_search","user_location":{"type":"approximate"}}]`, "web_search"},
		{respond, `"tools":[{"name":"f","type":"function"},{"type":"mcp","server_url":"https://x"}]`, "mcp"},
		{respond, `"tools":[{"type":"function","server_url":"https://x"}]`, ""},
		{respond, `"tools":["web_search"]`, ""},
		{respond, `"tools":{"type":"web_search"}`, ""},
		{respond, `"tools":[[{"type":"web_search"}]]`, ""},
		{respond, `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`, "code_interpreter"},
		{respond, `"tools":[{"type":"file_search","vector_store_ids":["v"]}]`, "file_search"},
		{respond, `"tools":[{"type":"image_generation"}]`, "image_generation"},
		{respond, `"tools":[{"type":"computer_use_preview"}]`, "computer_use_preview"},
		{respond, `"background":true`, "background"},
		{respond, `"conversation":"conv_1"`, "conversation"},
		{respond, `"prompt":{"id":"pmpt_1"}`, "prompt"},
		{respond, `"input":[{"type":"item_reference","id":"rs_1"}]`, ""},
		{respond, `"input":[{"type":"mcp_approval_response","approve":true}]`, ""},
		{respond, `"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://x/y.png"}]}]`,
			fetchURLs},
		{respond, `"input":[{"role":"user","content":[{"type":"input_image","image_url":" https://x/y.png"}]}]`,
			fetchURLs},
		{respond, `"input":[{"role":"user","content":[{"type":"input_image","image_url":"\u0068ttps://x/y.png"}]}]`,
			""},
		{respond, `"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x/y.pdf"}]}]`,
			fetchURLs},
		{respond, `"input":[{"role":"user","content":[{"type":"input_file","file_id":"file_1"}]}]`, ""},
		{respond, `"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"http://x"}]}]`,
			fetchURLs},
		{respond, `"store":true`, "store"},
		{respond, `"store":null`, "store"},
		{respond, `"previous_response_id":"resp_1"`, "previous_response_id"},
		{respond, `"tool_choice":{"type":"web_search"}`, ""},
		{respond, `"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"mcp","server_label":"x"}]}`,
			""},
		{respond, `"reasoning":{"effort":"low","x":1}`, ""},
		{respond, `"temperature":{"url":"https://x"}`, ""},
		{respond, `"include":["web_search_call.action.sources"]`, ""},
		{respond, `"tools":[{"type":"custom","name":"f","format":{"type":"grammar","url":"https://x"}}]`, ""},
		{chat, `"tool_choice":{"type":"web_search"}`, ""},
		{chat, `"stream_options":{"include_usage":true,"x":1}`, ""},
		{messages, `"thinking":{"type":"enabled","x":1}`, ""},
		{messages, `"tool_choice":{"type":"web_search"}`, ""},
		{chat, `"tools":[{"type":"web_search"}]`, "web_search"},
		{chat, `"tools":[{"googleSearch":{}}]`, ""},
		{chat, `"web_search_options":{}`, "web_search_options"},
		{chat, `"plugins":[{"id":"web"}]`, "plugins"},
		{chat, `"models":["dearer"]`, "models"},
		{chat, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]`,
			fetchURLs},
		{chat, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":"https://x"}]}]`, ""},
		{chat, `"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"https://x"}}]}]`, fetchURLs},
		{messages, `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, "web_search_20250305"},
		{messages, `"tools":[{"type":"custom","name":"f","defer_loading":true}]`, ""},
		{messages, `"mcp_servers":[{"type":"url","url":"https://x"}]`, "mcp_servers"},
		{messages, `"container":{"skills":[]}`, "container"},
		{messages, `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url",` +
			`"url":"https://x"}}]}]`, fetchURLs},
		{messages, `"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file",` +
			`"file_id":"f"}}]}]`, ""},
		{messages, `"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image",` +
			`"source":{"url":"https://x"}}]}]}]`, fetchURLs},
		{messages, `"messages":[{"role":"assistant","content":[{"type":"server_tool_use","name":"web_search"}]}]`, ""},
	} {
		for _, body := range []string{`{"model":"m",` + tc.body + `}`, `{` + tc.body + `,"model":"m"}`} {
			if _, err := modelOf(tc.contract, []byte(body)); !errors.Is(err, errFeature) {
				t.Errorf("%s %s: %v", tc.contract, body, err)
			}
			if tc.allow == "" {
				continue
			}
			if _, err := modelOf(tc.contract, []byte(body), tc.allow); err != nil {
				t.Errorf("%s %s, allowed: %v", tc.contract, body, err)
			}
			if _, err := modelOf(tc.contract, []byte(body), "other"); err == nil {
				t.Errorf("%s %s passes where something else is allowed", tc.contract, body)
			}
		}
	}
}

func modelOf(contract providers.Contract, body []byte, allow ...string) (string, error) {
	b, err := parseBody(body, grammarOf(contract, allow))
	if err != nil {
		return "", err
	}
	return b.model, nil
}

// A body that passes is JSON in which every reader finds the same model.
func FuzzGrammar(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","input":[{"role":"user","content":"x"}],"stream":true}`, `{"a":1,"mod\u0065l":"\ud83d\ude00"}`,
		`{"model":"m","a":[{},[[]],-1e9,"\\\""]}`,
		`{"model":"m","model":"x"}`, `{"model":"m","Model":"x"}`, "{\"model\":\"m\",\"a\":\"\xe2\x82\xac\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Add([]byte(`{"model":"m","tools":[{"type":"function","name":"f","parameters":{"a":1,"a":2}}],"input":[{"type":` +
		`"message","content":[{"type":"input_image","image_url":"data:x"}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		model, err := modelOf(respond, body)
		if err != nil {
			return
		}
		if !utf8.Valid(body) {
			t.Fatal("it is no UTF-8")
		}
		// Some readers look for keys in any case and take the last, as encoding/json; others look for them as they are.
		var loose struct {
			Model string
			Tools []struct{ Type string }
			Input json.RawMessage
		}
		var exact map[string]any
		if err := errors.Join(json.Unmarshal(body, &loose), json.Unmarshal(body, &exact)); err != nil ||
			loose.Model != model || exact["model"] != model {
			t.Fatalf("model %q, others read %q and %q (%v)", model, loose.Model, exact["model"], err)
		}
		for _, tool := range loose.Tools {
			if tool.Type != "function" && tool.Type != "custom" && tool.Type != "" {
				t.Fatalf("a tool of type %q passes", tool.Type)
			}
		}
		for key := range exact {
			if _, known := grammarOf(respond, nil).keys[key]; !known {
				t.Fatalf("the key %q passes", key)
			}
		}
	})
}
