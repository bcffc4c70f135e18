package conform

const (
	askWeather  = `"input":"What's the weather like in San Francisco?"`
	otherTool   = `{"type":"function","name":"get_time","parameters":{"type":"object","properties":{}}}`
	askWeathers = `"input":"What's the weather like in Paris, and what's the weather like in London?"`
)

func toolCases() []Case {
	return []Case{
		{"tools/round trip", Protocol, "the output of a call continues the response", func(t *trial) {
			roundTrip(t, `"It rains."`)
		}},
		{"tools/output parts", Protocol, "the output of a call may be parts", func(t *trial) {
			roundTrip(t, `[{"type":"input_text","text":"It rains."}]`)
		}},
		{"tools/replayed", Protocol, "call and output may be sent back as items", replayed},
		{"tools/choice none", Protocol, "tool_choice none forbids calls", func(t *trial) {
			uncalled(t, `"none"`)
		}},
		{"tools/choice allowed", Protocol, "a call outside allowed_tools never comes out", func(t *trial) {
			uncalled(t, `{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"get_time"}]}`)
		}},
		{"tools/choice required", Protocol, "tool_choice required gives a call or no success", func(t *trial) {
			called(t, `"required"`, "")
		}},
		{"tools/choice function", Protocol, "a chosen function is called, or the turn does not succeed",
			func(t *trial) { called(t, `{"type":"function","name":"get_time"}`, "get_time") }},
		{"tools/parallel", Protocol, "several calls in one response have ids of their own", func(t *trial) {
			n := countCalls(t, "true")
			t.expect(n >= 1, "there was no call")
		}},
		{"tools/not parallel", Protocol, "without parallel_tool_calls there is at most one call", func(t *trial) {
			n := countCalls(t, "false")
			t.expect(n == 1, "there were %d calls", n)
		}},
	}
}

// callWeather makes a response that ends with a call of get_weather.
func (t *trial) callWeather(extra string) (r resource, callID string) {
	r = t.completes(`{%s,"tools":[%s]%s}`, askWeather, weather, extra)
	call := r.first("function_call")
	callID, _ = call["call_id"].(string)
	t.demand(callID != "", "the response has no call: %v", r["output"])
	t.demand(call["name"] == "get_weather", "the call is of %v", call["name"])
	return r, callID
}

func roundTrip(t *trial, output string) {
	first, call := t.callWeather("")
	next := t.completes(
		`{"previous_response_id":%s,"input":[{"type":"function_call_output","call_id":%s,"output":%s}],"tools":[%s]}`,
		quote(first.str("id")), quote(call), output, weather)
	t.expect(next.first("function_call") == nil && next.text() != "", "the answer to the call has no text: %v",
		next["output"])
}

// replayed sends the whole conversation again, as clients do that store
// nothing.
func replayed(t *trial) {
	first, call := t.callWeather(`,"store":false`)
	input := append(user("What's the weather like in San Francisco?"), first["output"].([]any)...)
	input = append(input, map[string]any{"type": "function_call_output", "call_id": call, "output": "It rains."})
	next := t.completes(`{"store":false,"input":%s,"tools":[%s]}`, encode(input), weather)
	t.expect(next.text() != "", "the answer has no text: %v", next["output"])
}

// uncalled asks for the weather in a way that must not call get_weather. The
// model may talk or fail.
func uncalled(t *trial, choice string) {
	r, _ := t.streamed(`{%s,"tools":[%s,%s],"tool_choice":%s,"stream":true}`, askWeather, weather, otherTool, choice)
	for _, item := range r.output() {
		t.expect(item["type"] != "function_call" || item["name"] != "get_weather", "get_weather was called")
	}
}

// called demands a call of the function, "" for any, or a response that did not complete.
func called(t *trial, choice, name string) {
	r, _ := t.streamed(`{"input":"Say hello.","tools":[%s,%s],"tool_choice":%s,"stream":true}`, weather, otherTool,
		choice)
	call := r.first("function_call")
	t.expect(call != nil || r.str("status") != "completed", "the response completed without a call")
	t.expect(call == nil || name == "" || call["name"] == name, "%v was called", call["name"])
}

func countCalls(t *trial, parallel string) (n int) {
	r := t.completes(`{%s,"tools":[%s],"parallel_tool_calls":%s}`, askWeathers, weather, parallel)
	ids := make(map[any]bool)
	for _, item := range r.output() {
		if item["type"] == "function_call" {
			n++
			ids[item["call_id"]] = true
		}
	}
	t.expect(len(ids) == n, "%d calls have %d ids", n, len(ids))
	return n
}
