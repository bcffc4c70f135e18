package conform

import (
	"context"
	"errors"
	"fmt"

	"holon/responses/stream"
)

const (
	askWeather  = `"input":"What's the weather like in San Francisco?"`
	otherTool   = `{"type":"function","name":"get_time","parameters":{"type":"object","properties":{}}}`
	askWeathers = `"input":"What's the weather like in Paris, and what's the weather like in London?"`
)

func toolCases() []Case {
	return []Case{
		{"tools/round trip", Protocol, "the output of a call continues the response",
			func(ctx context.Context, s *Suite) error {
				return roundTrip(ctx, s, `"It rains."`)
			}},
		{"tools/output parts", Protocol, "the output of a call may be parts",
			func(ctx context.Context, s *Suite) error {
				return roundTrip(ctx, s, `[{"type":"input_text","text":"It rains."}]`)
			}},
		{"tools/replayed", Protocol, "call and output may be sent back as items", replayed},
		{"tools/choice none", Protocol, "tool_choice none forbids calls", func(ctx context.Context, s *Suite) error {
			return uncalled(ctx, s, `"none"`)
		}},
		{"tools/choice allowed", Protocol, "a call outside allowed_tools never comes out",
			func(ctx context.Context, s *Suite) error {
				return uncalled(ctx, s, `{"type":"allowed_tools","mode":"auto","tools":[{"type":"function",`+
					`"name":"get_time"}]}`)
			}},
		{"tools/choice required", Protocol, "tool_choice required gives a call or no success",
			func(ctx context.Context, s *Suite) error {
				return called(ctx, s, `"required"`, "get_weather")
			}},
		{"tools/choice function", Protocol, "a chosen function is called, or the turn does not succeed",
			func(ctx context.Context, s *Suite) error {
				return called(ctx, s, `{"type":"function","name":"get_time"}`, "get_time")
			}},
		{"tools/parallel", Protocol, "several calls in one response have ids of their own",
			func(ctx context.Context, s *Suite) error {
				n, err := countCalls(ctx, s, "true")
				return errors.Join(err, expect(err != nil || n >= 1, "there was no call"))
			}},
		{"tools/not parallel", Protocol, "without parallel_tool_calls there is at most one call",
			func(ctx context.Context, s *Suite) error {
				n, err := countCalls(ctx, s, "false")
				return errors.Join(err, expect(err != nil || n == 1, "there were %d calls", n))
			}},
	}
}

// callWeather makes a response that ends with a call of get_weather.
func (s *Suite) callWeather(ctx context.Context, extra string) (r resource, callID string, err error) {
	r, err = s.completes(ctx, s.request(`{%s,"tools":[%s]%s}`, askWeather, weather, extra))
	if err != nil {
		return nil, "", err
	}
	call := r.first("function_call")
	callID, _ = call["call_id"].(string)
	return r, callID, errors.Join(expect(callID != "", "the response has no call: %v", r["output"]),
		expect(call["name"] == "get_weather", "the call is of %v", call["name"]))
}

func roundTrip(ctx context.Context, s *Suite, output string) error {
	first, call, err := s.callWeather(ctx, "")
	if err != nil {
		return err
	}
	next, err := s.completes(ctx, s.request(
		`{"previous_response_id":%s,"input":[{"type":"function_call_output","call_id":%s,"output":%s}],"tools":[%s]}`,
		quote(first.str("id")), quote(call), output, weather))
	if err != nil {
		return fmt.Errorf("the answer to the call: %w", err)
	}
	return expect(next.first("function_call") == nil && next.text() != "", "the answer to the call has no text: %v",
		next["output"])
}

// replayed sends the whole conversation again, as clients do that store
// nothing.
func replayed(ctx context.Context, s *Suite) error {
	first, call, err := s.callWeather(ctx, `,"store":false`)
	if err != nil {
		return err
	}
	input := append(user("What's the weather like in San Francisco?"), first["output"].([]any)...)
	input = append(input, map[string]any{"type": "function_call_output", "call_id": call, "output": "It rains."})
	next, err := s.completes(ctx, s.request(`{"store":false,"input":%s,"tools":[%s]}`, encode(input), weather))
	if err != nil {
		return err
	}
	return expect(next.text() != "", "the answer has no text: %v", next["output"])
}

// uncalled asks for the weather in a way that must not call get_weather. The
// model may talk or fail.
func uncalled(ctx context.Context, s *Suite, choice string) error {
	a, err := s.post(ctx, s.request(`{%s,"tools":[%s,%s],"tool_choice":%s,"stream":true}`, askWeather, weather,
		otherTool, choice))
	if err != nil {
		return err
	}
	r, _, err := s.checkStream(a, stream.SSE, new(Checker))
	if err != nil {
		return err
	}
	for _, item := range r.output() {
		if item["type"] == "function_call" && item["name"] == "get_weather" {
			return errors.New("get_weather was called")
		}
	}
	return nil
}

// called demands a call of the function or a response that did not complete.
func called(ctx context.Context, s *Suite, choice, name string) error {
	a, err := s.post(ctx, s.request(`{"input":"Say hello.","tools":[%s,%s],"tool_choice":%s,"stream":true}`, weather,
		otherTool, choice))
	if err != nil {
		return err
	}
	r, _, err := s.checkStream(a, stream.SSE, new(Checker))
	if err != nil {
		return err
	}
	call := r.first("function_call")
	if call == nil {
		return expect(r.str("status") != "completed", "the response completed without a call")
	}
	return expect(choice == `"required"` || call["name"] == name, "%v was called", call["name"])
}

func countCalls(ctx context.Context, s *Suite, parallel string) (n int, err error) {
	r, err := s.completes(ctx, s.request(`{%s,"tools":[%s],"parallel_tool_calls":%s}`, askWeathers, weather, parallel))
	if err != nil {
		return 0, err
	}
	ids := make(map[any]bool)
	for _, item := range r.output() {
		if item["type"] == "function_call" {
			n++
			ids[item["call_id"]] = true
		}
	}
	return n, expect(len(ids) == n, "%d calls have %d ids", n, len(ids))
}
