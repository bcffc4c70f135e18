package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/test/expect"
)

// outcome is what a turn came to, in words.
func outcome(resp responses.Response) string {
	switch {
	case resp.Error != nil:
		return string(resp.Status) + " " + resp.Error.Code
	case resp.IncompleteDetails != nil:
		return string(resp.Status) + " " + resp.IncompleteDetails.Reason
	}
	return string(resp.Status)
}

// What the request lets the model call holds whatever the model does, for
// tools of the container (Run) and functions of the client (ask) alike.
func TestWhatMayBeCalled(t *testing.T) {
	run, ask, end := call("r", "Run", "{}"), call("a", "ask", "{}"), done(model.StopEnd)
	run2, ask2 := call("r2", "Run", "{}"), call("a2", "ask", "{}")
	refusal := []model.Event{ev(model.RefusalDelta, "no"), end}
	only := func(mode string, names ...string) string {
		list := make([]string, len(names))
		for i, n := range names {
			list[i] = `{"type":"function","name":"` + n + `"}`
		}
		return `{"type":"allowed_tools","mode":"` + mode + `","tools":[` + strings.Join(list, ",") + `]}`
	}
	forced := func(name string) string { return `{"type":"function","name":"` + name + `"}` }
	const choice = `,"tool_choice":`
	for _, tt := range []struct {
		name    string
		fields  string
		rounds  [][]model.Event
		outcome string
		ran     string // call ids that ran in the container
		handed  string // call ids of the function_calls on the stream
		refused string // call ids that the model was told were not run
	}{
		{"none, and it answers", choice + `"none"`, [][]model.Event{answer}, "completed", "", "", ""},
		{"none, and it calls once", choice + `"none"`, [][]model.Event{join(run, ask, end), answer}, "completed", "",
			"", "r a"},
		{"none, and it goes on calling", choice + `"none"`,
			[][]model.Event{join(run, end), join(ask, end), join(run2, end), answer}, "failed tool_not_allowed", "", "",
			"r a r2"},
		{"auto", choice + `"auto"`, [][]model.Event{join(run, end), answer}, "completed", "r", "", ""},
		{"required and met by the container", choice + `"required"`, [][]model.Event{join(run, end), answer},
			"completed", "r", "", ""},
		{"required and met by the client", choice + `"required"`, [][]model.Event{join(ask, end)}, "completed", "", "a",
			""},
		{"required and unmet", choice + `"required"`, [][]model.Event{answer}, "failed tool_choice_unmet", "", "", ""},
		{"required and refused", choice + `"required"`, [][]model.Event{refusal}, "completed", "", "", ""},
		{"required, and it says nothing", choice + `"required"`, [][]model.Event{{end}, {end}},
			"failed tool_choice_unmet", "", "", ""},
		{"a function and met", choice + forced("ask"), [][]model.Event{join(ask, end)}, "completed", "", "a", ""},
		{"a tool of the container and met", choice + forced("Run"), [][]model.Event{join(run, end), join(ask, end)},
			"completed", "r", "a", ""},
		{"a function and another first", choice + forced("ask"), [][]model.Event{join(run, end), join(ask, end)},
			"completed", "", "a", "r"},
		{"a function and unmet", choice + forced("ask"), [][]model.Event{answer}, "failed tool_choice_unmet", "", "",
			""},
		{"a function and another, then an answer", choice + forced("ask"), [][]model.Event{join(run, end), answer},
			"failed tool_choice_unmet", "", "", "r"},
		{"allowed", choice + only("auto", "Run"), [][]model.Event{join(run, end), answer}, "completed", "r", "", ""},
		{"a function outside the list", choice + only("auto", "Run"), [][]model.Event{join(ask, run, end), answer},
			"completed", "r", "", "a"},
		{"a tool of the container outside the list", choice + only("auto", "ask"),
			[][]model.Event{join(run, end), join(ask, end)}, "completed", "", "a", "r"},
		{"an unknown tool outside the list", choice + only("auto", "ask"),
			[][]model.Event{join(call("x", "../x y", "{}"), end), answer}, "completed", "", "", "x"},
		{"both outside and inside in one round", choice + only("auto", "ask"), [][]model.Event{join(run, ask, end)},
			"completed", "", "a", "r"},
		{"only calls outside the list", choice + only("auto", "ask"),
			[][]model.Event{join(run, end), join(run2, end), join(call("r3", "Run", "{}"), end)},
			"failed tool_not_allowed", "", "", "r r2 r3"},
		{"allowed and required", choice + only("required", "Run"), [][]model.Event{join(run, end), answer}, "completed",
			"r", "", ""},
		{"allowed, required and unmet", choice + only("required", "Run"), [][]model.Event{join(ask, end), answer},
			"failed tool_choice_unmet", "", "", "a"},
		{"allowed and none", choice + only("none", "Run"), [][]model.Event{join(run, end), answer}, "completed", "", "",
			"r"},
		{"several at once", ``, [][]model.Event{join(run, run2, end), join(ask, ask2, end)}, "completed", "r r2",
			"a a2", ""},
		{"one at a time, of the container", `,"parallel_tool_calls":false`,
			[][]model.Event{join(run, run2, end), answer}, "completed", "r", "", ""},
		{"one at a time, of the client", `,"parallel_tool_calls":false`, [][]model.Event{join(ask, ask2, run, end)},
			"completed", "", "a", ""},
		{"one at a time, the container's first", `,"parallel_tool_calls":false`,
			[][]model.Event{join(run, ask, end), join(ask2, end)}, "completed", "r", "a2", ""},
		{"one at a time, but not of those outside the list",
			`,"parallel_tool_calls":false` + choice + only("auto", "ask"), [][]model.Event{join(run, ask, ask2, end)},
			"completed", "", "a", "r"},
		{"the limit over rounds", `,"max_tool_calls":1`, [][]model.Event{join(run, end), join(run2, end)},
			"incomplete max_tool_calls", "r", "", "r2"},
		{"the limit within a round", `,"max_tool_calls":1`, [][]model.Event{join(run, run2, end)},
			"incomplete max_tool_calls", "r", "", "r2"},
		{"the limit met exactly", `,"max_tool_calls":2`, [][]model.Event{join(run, run2, end), answer}, "completed",
			"r r2", "", ""},
		{"the limit of the client's calls", `,"max_tool_calls":1`, [][]model.Event{join(ask, ask2, end)}, "completed",
			"", "a", "a2"},
		{"the limit of both kinds", `,"max_tool_calls":2`, [][]model.Event{join(run, ask, run2, ask2, end)},
			"completed", "r", "a", "r2 a2"},
		{"calls that are not allowed count for no limit", `,"max_tool_calls":1` + choice + only("auto", "Run"),
			[][]model.Event{join(ask, run, end), answer}, "completed", "r", "", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, `{"input":"x"`+clientTool+tt.fields+`}`, tt.rounds...)
			resp, result := s.run(t, t.Context())
			var handed, refused []string
			for _, item := range resp.Output {
				if c, ok := item.(*responses.FunctionCall); ok {
					handed = append(handed, c.CallID)
				}
			}
			for _, item := range s.journal.items {
				c, ok := item.(*responses.ToolCall)
				if !ok {
					continue
				}
				var r tools.Result
				if err := json.Unmarshal(c.Result, &r); err != nil || c.Status != responses.ItemCompleted ||
					strings.ContainsAny(c.Name, "./ ") {
					t.Errorf("%+v: %v", c, err)
				}
				if r.Error != nil {
					refused = append(refused, c.CallID)
				}
			}
			got := []string{outcome(resp), strings.Join(s.box.ran, " "), strings.Join(handed, " "),
				strings.Join(refused, " ")}
			if want := []string{tt.outcome, tt.ran, tt.handed, tt.refused}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if result.ToolCalls.Total != len(s.box.ran) {
				t.Errorf("it counts %+v", result)
			}
			if n := len(s.model.asked); n != len(tt.rounds) && !strings.HasPrefix(outcome(resp), "failed") {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}

// The container's calls of a round are run and recorded before the client's
// calls end the turn.
func TestBothKindsOfCallsInOneRound(t *testing.T) {
	s := newStage(t, `{"input":"x"`+clientTool+`}`,
		join(call("a", "ask", "{}"), call("r", "Run", "{}"), call("a2", "ask", "{}"), done(model.StopEnd)))
	resp, _ := s.run(t, t.Context())
	if outcome(resp) != "completed" || len(resp.Output) != 2 {
		t.Fatalf("%s with %d items", outcome(resp), len(resp.Output))
	}
	got := strings.Join(s.journal.lines, " ")
	if !strings.HasSuffix(got, "started r tool.started ran r tool.result add holon:tool_call") ||
		strings.Count(got, "add function_call") != 2 {
		t.Errorf("the journal is %s", got)
	}
}

// max_output_tokens is a limit of the response, not of a round.
func TestOutputLimitOverRounds(t *testing.T) {
	round := join(call("r", "Run", "{}"), done(model.StopEnd)) // of two tokens
	s := newStage(t, `{"input":"x","max_output_tokens":3}`, round, round, answer)
	resp, result := s.run(t, t.Context())
	expect.Equal(t, "outcome(resp)", outcome(resp), "incomplete max_output_tokens")
	expect.Equal(t, "result.Rounds", result.Rounds, 2)
	expect.Equal(t, "*resp.MaxOutputTokens", *resp.MaxOutputTokens, 3)
	for i, want := range []int{3, 1} {
		if got := s.model.asked[i].MaxOutputTokens; got == nil || *got != want {
			t.Errorf("round %d may say %v tokens, want %d", i+1, got, want)
		}
	}
}

func TestStructuredOutput(t *testing.T) {
	const schema = `{"type":"json_schema","name":"n","schema":{"type":"object",` +
		`"properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`
	said := func(text string) []model.Event {
		return []model.Event{ev(model.MessageBegin), ev(model.TextDelta, text), done(model.StopEnd)}
	}
	invalid := "failed " + responses.CodeStructuredOutput
	for _, tt := range []struct {
		name, format string
		rounds       [][]model.Event
		outcome      string
	}{
		{"fits", schema + `,"strict":true}`, [][]model.Event{said(`{"a":1}`)}, "completed"},
		{"fits, not strict", schema + `}`, [][]model.Event{said(` {"a":1} `)}, "completed"},
		{"another type", schema + `}`, [][]model.Event{said(`{"a":"1"}`)}, invalid},
		{"another key", schema + `,"strict":true}`, [][]model.Event{said(`{"a":1,"b":2}`)}, invalid},
		{"prose", schema + `}`, [][]model.Event{said(`Here you are: {"a":1}`)}, invalid},
		{"nothing", schema + `}`, [][]model.Event{{done(model.StopEnd)}, {done(model.StopEnd)}},
			"incomplete empty_answer"},
		{"only the last message counts", schema + `}`,
			[][]model.Event{join(ev(model.TextDelta, "Well."), said(`{"a":1}`))}, "completed"},
		{"narration before calls is free", schema + `}`,
			[][]model.Event{join(ev(model.TextDelta, "I look."), call("r", "Run", "{}"), done(model.StopEnd)),
				said(`{"a":1}`)}, "completed"},
		{"a refusal", schema + `}`, [][]model.Event{{ev(model.RefusalDelta, "no"), done(model.StopEnd)}}, "completed"},
		{"cut short", schema + `}`, [][]model.Event{{ev(model.TextDelta, `{"a`), done(model.StopMaxTokens)}},
			"incomplete max_output_tokens"},
		{"a call instead", schema + `}`, [][]model.Event{join(call("a", "ask", "{}"), done(model.StopEnd))},
			"completed"},
		{"any JSON", `{"type":"json_schema"}`, [][]model.Event{said(`{"x":[1]}`)}, "completed"},
		{"any JSON, and there is none", `{"type":"json_object"}`, [][]model.Event{said(`x`)}, invalid},
		{"plain text", `{"type":"text"}`, [][]model.Event{said(`x`)}, "completed"},
	} {
		s := newStage(t, `{"input":"x"`+clientTool+`,"text":{"format":`+tt.format+`}}`, tt.rounds...)
		resp, _ := s.run(t, t.Context())
		expect.Equal(t, tt.name, outcome(resp), tt.outcome)
		if asked := s.model.asked[0].Text.Format; tt.format != `{"type":"text"}` && asked.Type == "" {
			t.Errorf("%s: the provider is not told: %+v", tt.name, asked)
		}
	}
	s := newStage(t, `{"input":"x","text":{"format":{"type":"json_schema","schema":{"pattern":"(?=a)"}}}}`, said("{}"))
	if resp, _ := s.run(t, t.Context()); outcome(resp) != "failed invalid_value" {
		t.Errorf("a schema that was not checked: %s", outcome(resp))
	}
}

func TestCheck(t *testing.T) {
	offered := []tools.Definition{{Name: "Run"}}
	image := `{"type":"input_image","image_url":"https://example.com/cat.png"}`
	for _, tt := range []struct {
		body  string
		takes model.Capabilities
		param string
	}{
		{`{"tool_choice":{"type":"function","name":"ask"}` + clientTool + `}`, model.Capabilities{}, ""},
		{`{"tool_choice":{"type":"function","name":"Run"}}`, model.Capabilities{}, ""},
		{`{"tool_choice":{"type":"function","name":"Fly"}}`, model.Capabilities{}, "tool_choice.name"},
		{`{"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"Run"},{"type":"function",` +
			`"name":"Fly"}]}}`, model.Capabilities{}, "tool_choice.tools[1].name"},
		{`{"tool_choice":"required"}`, model.Capabilities{}, ""},
		{`{"text":{"format":{"type":"json_schema","schema":{"pattern":"(?=a)"}}}}`, model.Capabilities{},
			"text.format.schema"},
		{`{"input":[{"role":"user","content":[{"type":"input_text","text":"x"},` + image + `]}]}`, model.Capabilities{},
			"input[0].content[1]"},
		{`{"input":[{"role":"user","content":[` + image + `]}]}`, model.Capabilities{Images: true}, ""},
		{`{"input":[{"role":"user","content":"x"},{"type":"function_call_output","call_id":"c","output":[` + image +
			`]}]}`, model.Capabilities{Files: true, Video: true}, "input[1].output[0]"},
		{`{"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://u"}]}]}`,
			model.Capabilities{Images: true, Video: true}, "input[0].content[0]"},
		{`{"input":[{"role":"user","content":[{"type":"input_video","video_url":"https://u"}]}]}`,
			model.Capabilities{Images: true, Files: true}, "input[0].content[0]"},
		{`{"input":[{"type":"holon:tool_call","call_id":"c","name":"View","media":[` + image + `]}]}`,
			model.Capabilities{}, "input[0].media[0]"},
	} {
		q, err := responses.DecodeRequest([]byte(tt.body))
		expect.NoError(t, err)
		err = Check(q, offered, tt.takes)
		e, _ := errors.AsType[*responses.Error](err)
		if tt.param == "" && err != nil || tt.param != "" && (e == nil || e.Param != tt.param || e.Hint == "") {
			t.Errorf("%s: %v", tt.body, err)
		}
	}
	q, err := responses.DecodeRequest([]byte(`{"tool_choice":"required"}`))
	expect.NoError(t, err)
	if err := Check(q, nil, model.Capabilities{}); err == nil {
		t.Error("a tool is required where there is none")
	}
}

// A model that calls nothing but tools that there are not is told of all that it may call, and ends the turn.
func TestToolsThatThereAreNot(t *testing.T) {
	var rounds [][]model.Event
	for i := range 10 {
		rounds = append(rounds, join(call(fmt.Sprint("call_", i), "nosuch", "{}"), done(model.StopEnd)))
	}
	s := newStage(t, `{"input":"x"`+clientTool+`}`, rounds...)
	resp, _ := s.run(t, t.Context())
	if outcome(resp) != "failed "+responses.CodeToolNotAllowed || len(s.model.asked) != maxRejectedRounds {
		t.Errorf("%s after %d rounds, want it after %d", outcome(resp), len(s.model.asked), maxRejectedRounds)
	}
	result := s.model.asked[1].Input[1].(*responses.ToolCall)
	expect.Contains(t, "the model is told", result.Output, "use one of: Run, ask")
}
