package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// image is a 32×32 picture of one colour, as a data URL.
const image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKklEQVR42mO4oGBAU8QwasGoBaMWjFowasGoBaMWjFowasGoBaMWDBULACWUgD0rMkcBAAAAAElFTkSuQmCC"

// weather declares the function of the cases about tools. It has no "strict",
// as many clients send it.
const weather = `{"type":"function","name":"get_weather","description":"Current weather of a city.",` +
	`"parameters":{"type":"object","properties":{"location":{"type":"string","description":"City and state."}},` +
	`"required":["location"]}}`

// officialHTTP are the nine cases that the official suite has for HTTP.
func officialHTTP() []Case {
	completes := func(id, about, body string) Case {
		return Case{id, Official, about, func(ctx context.Context, s *Suite) error {
			_, err := s.completes(ctx, s.request("%s", body))
			return err
		}}
	}
	return []Case{
		completes("basic-response", "a user's message gives a completed response",
			`{"input":[{"type":"message","role":"user","content":"Say hello in exactly three words."}]}`),
		completes("assistant-phase", "phases are accepted in the history",
			`{"input":[{"type":"message","role":"assistant","phase":"commentary","content":"Let me look."},`+
				`{"type":"message","role":"assistant","phase":"final_answer","content":"It is green."},`+
				`{"type":"message","role":"user","content":"Say it again."}]}`),
		{"streaming-response", Official, "a stream has valid events only and ends with a completed response",
			streamingResponse},
		completes("system-prompt", "a system message is accepted",
			`{"input":[{"type":"message","role":"system","content":"You are a pirate."},{"type":"message",`+
				`"role":"user","content":"Say hello."}]}`),
		{"tool-calling", Official, "a function that is offered is called", toolCalling},
		completes("image-input", "an image is accepted",
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"What is in this `+
				`image?"},{"type":"input_image","image_url":"`+image+`"}]}]}`),
		completes("multi-turn", "a history of several turns is accepted",
			`{"input":[{"type":"message","role":"user","content":"My name is Ada."},{"type":"message",`+
				`"role":"assistant","content":"Hello Ada."},`+
				`{"type":"message","role":"user","content":"What is my name?"}]}`),
		{"compact-response", Official, "a conversation is compacted", compactResponse},
		{"compact-missing-model", Official, "compacting without a model is refused", compactMissingModel},
	}
}

// streamingResponse reads the stream with the official reader.
func streamingResponse(ctx context.Context, s *Suite) error {
	resp, err := s.begin(ctx, http.MethodPost, "/responses",
		s.request(`{"input":[{"type":"message","role":"user","content":"Count from 1 to 5."}],"stream":true}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		return errors.Join(err, fmt.Errorf("answered %d: %.500s", resp.StatusCode, data))
	}
	events, err := lossyEvents(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	var final json.RawMessage
	for _, data := range events {
		typ, response, err := s.officialEvent(data)
		if err != nil {
			return err
		}
		if isTerminal(typ) {
			final = response
		}
	}
	if final == nil {
		return fmt.Errorf("the official reader saw no terminal event among %d", len(events))
	}
	r, err := s.resource(final)
	return errors.Join(err, expect(r.str("status") == "completed", "the response is %q", r.str("status")))
}

// officialEvent checks one event as the official suite does: by its schema
// alone, where that is at hand.
func (s *Suite) officialEvent(data []byte) (typ string, response json.RawMessage, err error) {
	var ev struct {
		Type     string          `json:"type"`
		Response json.RawMessage `json:"response"`
	}
	if err := json.Unmarshal(data, &ev); err != nil {
		return "", nil, fmt.Errorf("an event is no JSON: %w: %.200s", err, data)
	}
	if s.Schemas != nil {
		err = s.Schemas.Event(data)
	}
	return ev.Type, ev.Response, err
}

func isTerminal(typ string) bool {
	return slices.Contains([]string{"response.completed", "response.failed", "response.incomplete"}, typ)
}

func toolCalling(ctx context.Context, s *Suite) error {
	r, err := s.created(ctx, s.request(
		`{"input":[{"type":"message","role":"user","content":"What's the weather like in San Francisco?"}`+
			`],"tools":[%s]}`, weather))
	if err != nil {
		return err
	}
	return expect(r.first("function_call") != nil, "the output has no function_call: %v", r["output"])
}

func compactResponse(ctx context.Context, s *Suite) error {
	r, err := s.compact(ctx, s.request(
		`{"prompt_cache_key":"conformance","input":[{"type":"message","role":"user","content":"My dog is `+
			`called Rex."},`+
			`{"type":"message","role":"assistant","content":"Noted: Rex."}]}`))
	if err != nil {
		return err
	}
	return errors.Join(
		expect(r.first("compaction") != nil, "the output has no compaction: %v", r["output"]),
		expect(r.str("object") == "response.compaction", "object is %q", r.str("object")))
}

// compact posts to /responses/compact and checks the shape of the answer.
func (s *Suite) compact(ctx context.Context, body []byte) (resource, error) {
	a, err := s.do(ctx, http.MethodPost, "/responses/compact", body)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK || a.contentType != "application/json" {
		return nil, fmt.Errorf("answered %d, %s: %.500s", a.status, a.contentType, a.body)
	}
	ev := &event{}
	ev.object = object{ev: ev}
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.UseNumber()
	if err := dec.Decode(&ev.keys); err != nil {
		return nil, fmt.Errorf("the answer is no JSON object: %w", err)
	}
	checkCompaction(&ev.object)
	if ev.fault != nil {
		return nil, fmt.Errorf("the answer breaks the rule %s: %s", ev.fault.Rule, ev.fault.Detail)
	}
	if s.Schemas != nil {
		err = s.Schemas.Object("CompactResource", a.body)
	}
	return resource(ev.keys), err
}

func checkCompaction(o *object) {
	for _, key := range strings.Fields("id object") {
		if o.str(key) == "" {
			o.fail(RuleShape, "%s is empty", key)
		}
	}
	o.integer("created_at")
	if o.isNull("usage") {
		o.fail(RuleShape, "usage is null")
	}
	checkUsage(o)
	if len(o.list("output")) == 0 {
		o.fail(RuleShape, "output is empty")
	}
	for i, v := range o.list("output") {
		checkItem(o.within("output", i, v))
	}
}

func compactMissingModel(ctx context.Context, s *Suite) error {
	a, err := s.do(ctx, http.MethodPost, "/responses/compact",
		[]byte(`{"input":[{"type":"message","role":"user","content":"Hello."}]}`))
	if err != nil {
		return err
	}
	return expect(a.status == 400 || a.status == 422, "answered %d, want 400 or 422: %.500s", a.status, a.body)
}

// officialLocal is the one case that sends nothing: a response with both phases
// must fit the schema.
func officialLocal() []Case {
	return []Case{{"response-output-phase-schema", Official, "both phases of a message fit the schema",
		func(_ context.Context, s *Suite) error {
			r, err := s.resource([]byte(phases))
			if err != nil {
				return err
			}
			want := []string{"commentary", "final_answer"}
			for i, item := range r.output() {
				if item["phase"] != want[i] {
					return fmt.Errorf("message %d has phase %v, want %s", i, item["phase"], want[i])
				}
			}
			return completed(r)
		}}}
}

// phases is a whole response with all its keys.
const phases = `{"id":"resp_1","object":"response","created_at":1,"completed_at":2,"status":"completed",` +
	`"incomplete_details":null,"model":"m",` +
	`"previous_response_id":null,"instructions":null,"output":[` +
	`{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"commentary","content":[{"type":` +
	`"output_text","text":"Looking.","annotations":[],"logprobs":[]}]},` +
	`{"type":"message","id":"msg_2","status":"completed","role":"assistant","phase":"final_answer",` +
	`"content":[{"type":"output_text","text":"Done.","annotations":[],"logprobs":[]}]}],` +
	`"error":null,"tools":[],"tool_choice":"auto","truncation":"disabled","parallel_tool_calls":true,` +
	`"text":{"format":{"type":"text"}},"top_p":1,"presence_penalty":0,` +
	`"frequency_penalty":0,"top_logprobs":0,"temperature":1,"reasoning":{"effort":null,"summary":null},` +
	`"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2,"input_tokens_details":{"cached_tokens":0},` +
	`"output_tokens_details":{"reasoning_tokens":0}},` +
	`"max_output_tokens":null,"max_tool_calls":null,"store":true,"background":false,"service_tier":"default",` +
	`"metadata":{},"safety_identifier":null,"prompt_cache_key":null}`
