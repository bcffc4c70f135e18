package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// image is a 32×32 picture of one colour, as a data URL.
const image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKklEQVR42mO4oGBAU8QwasGoBaMWjFowasGoBaMWjFowasGoBaMWDBULACWUgD0rMkcBAAAAAElFTkSuQmCC"

// weather declares the function of the cases about tools. It has no "strict",
// as many clients send it.
const weather = `{"type":"function","name":"get_weather","description":"Current weather of a city.",` +
	`"parameters":{"type":"object","properties":{"location":{"type":"string","description":"City and state."}},` +
	`"required":["location"]}}`

// officialHTTP are the ten cases that the official suite has for HTTP.
func officialHTTP() []Case {
	return []Case{
		completing("basic-response", Official, "a user's message gives a completed response",
			`{"input":[{"type":"message","role":"user","content":"Say hello in exactly three words."}]}`),
		completing("assistant-phase", Official, "phases are accepted in the history",
			`{"input":[{"type":"message","role":"assistant","phase":"commentary","content":"Let me look."},`+
				`{"type":"message","role":"assistant","phase":"final_answer","content":"It is green."},`+
				`{"type":"message","role":"user","content":"Say it again."}]}`),
		{"streaming-response", Official, "a stream has valid events only and ends with a completed response",
			streamingResponse},
		completing("system-prompt", Official, "a system message is accepted",
			`{"input":[{"type":"message","role":"system","content":"You are a pirate."},{"type":"message",`+
				`"role":"user","content":"Say hello."}]}`),
		{"tool-calling", Official, "a function that is offered is called", func(t *trial) {
			r := t.created(`{"input":[{"type":"message","role":"user","content":"What's the weather like in `+
				`San Francisco?"}],"tools":[%s]}`, weather)
			t.expect(r.first("function_call") != nil, "the output has no function_call: %v", r["output"])
		}},
		{"tool-calling-streaming", Official, "a stream has the pieces of a call in their order", callStreaming},
		completing("image-input", Official, "an image is accepted",
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"What is in this `+
				`image?"},{"type":"input_image","image_url":"`+image+`"}]}]}`),
		completing("multi-turn", Official, "a history of several turns is accepted",
			`{"input":[{"type":"message","role":"user","content":"My name is Ada."},{"type":"message",`+
				`"role":"assistant","content":"Hello Ada."},`+
				`{"type":"message","role":"user","content":"What is my name?"}]}`),
		{"compact-response", Official, "a conversation is compacted", func(t *trial) {
			r := t.compact(`{"prompt_cache_key":"conformance","input":[{"type":"message","role":"user",` +
				`"content":"My dog is called Rex."},{"type":"message","role":"assistant","content":"Noted: Rex."}]}`)
			t.expect(r.first("compaction") != nil, "the output has no compaction: %v", r["output"])
		}},
		{"compact-missing-model", Official, "compacting without a model is refused", func(t *trial) {
			a := t.do(http.MethodPost, "/responses/compact",
				[]byte(`{"input":[{"type":"message","role":"user","content":"Hello."}]}`))
			t.expect(a.status == 400 || a.status == 422, "answered %d, want 400 or 422: %.500s", a.status, a.body)
		}},
	}
}

// callStreaming looks for the events of a call, which come one after the other among others.
func callStreaming(t *trial) {
	r, events := t.streamed(`{%s,"stream":true,"tools":[%s]}`, askWeather, weather)
	want := []string{"response.output_item.added", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.done"}
	for _, data := range events {
		var ev struct {
			Type string                `json:"type"`
			Item struct{ Type string } `json:"item"`
		}
		t.must(json.Unmarshal(data, &ev))
		ofCall := ev.Item.Type == "" || ev.Item.Type == "function_call"
		if len(want) > 0 && ev.Type == want[0] && ofCall {
			want = want[1:]
		}
	}
	t.expect(len(want) == 0, "the stream lacks, in this order, %v", want)
	t.expect(r.first("function_call") != nil, "the output has no function_call: %v", r["output"])
}

func streamingResponse(t *trial) {
	resp := t.begin(http.MethodPost, "/responses",
		t.request(`{"input":[{"type":"message","role":"user","content":"Count from 1 to 5."}],"stream":true}`))
	defer resp.Body.Close()
	events, err := lossyEvents(io.LimitReader(resp.Body, maxBody))
	t.demand(err == nil && resp.StatusCode == http.StatusOK, "answered %d: %v", resp.StatusCode, err)
	var final json.RawMessage
	for _, data := range events {
		typ, response, err := t.officialEvent(data)
		t.must(err)
		if isTerminal(typ) {
			final = response
		}
	}
	t.demand(final != nil, "the official reader saw no terminal event among %d", len(events))
	r := t.resource(final)
	t.expect(r.str("status") == "completed", "the response is %q", r.str("status"))
}

// lossyEvents reads server-sent events as the official runner does, which loses
// what a careful reader keeps: the lines of an event that come in different
// chunks of the network, and all events of a stream with CR line ends. A server
// has to write each event at once and with LF. It returns the data of the
// events that were seen, without [DONE].
//
// A chunk is what one Read of r returns.
func lossyEvents(r io.Reader) (events [][]byte, err error) {
	var rest []byte // of a line
	buf := make([]byte, 1<<20)
	for {
		n, err := r.Read(buf)
		lines := bytes.Split(append(rest, buf[:n]...), []byte{'\n'})
		rest = bytes.Clone(lines[len(lines)-1])
		var data []byte // forgotten at the end of the chunk
		for _, line := range lines[:len(lines)-1] {
			switch {
			case bytes.HasPrefix(line, []byte("data:")):
				data = bytes.TrimPrefix(line[len("data:"):], []byte{' '})
			case len(line) == 0:
				if len(data) > 0 && string(data) != "[DONE]" {
					events = append(events, bytes.Clone(data))
				}
				data = nil
			}
		}
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
	}
}

// officialEvent checks one event as the official suite does: by its schema
// alone.
func (t *trial) officialEvent(data []byte) (typ string, response json.RawMessage, err error) {
	var ev struct {
		Type     string          `json:"type"`
		Response json.RawMessage `json:"response"`
	}
	if err := json.Unmarshal(data, &ev); err != nil {
		return "", nil, fmt.Errorf("an event is not JSON: %w: %.200s", err, data)
	}
	return ev.Type, ev.Response, t.doc.Event(data)
}

func isTerminal(typ string) bool {
	return slices.Contains([]string{"response.completed", "response.failed", "response.incomplete"}, typ)
}

func (t *trial) compact(body string) resource {
	a := t.do(http.MethodPost, "/responses/compact", t.request("%s", body))
	a.isJSON(t)
	return t.decode("CompactResource", a.body, func(o *object) {
		if o.str("id") == "" || len(o.list("output")) == 0 {
			o.fail(RuleShape, "id or output is empty")
		}
		o.integer("created_at")
		checkUsage(o.obj("usage"))
		o.each("output", checkItem)
	})
}

// officialLocal is the one case that sends nothing: a response with both phases
// must fit the schema.
func officialLocal() []Case {
	return []Case{{"response-output-phase-schema", Official, "both phases of a message fit the schema",
		func(t *trial) {
			r := t.resource([]byte(phases))
			want := []string{"commentary", "final_answer"}
			for i, item := range r.output() {
				t.expect(item["phase"] == want[i], "message %d has phase %v, want %s", i, item["phase"], want[i])
			}
			t.completed(r)
		}}}
}

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
