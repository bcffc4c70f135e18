package conform

import (
	"context"
	"errors"
	"net/http"
)

// socketCases are what the protocol's text says of WebSockets and its suite does
// not check.
func socketCases() []Case {
	return []Case{
		{"sockets/grammar", Protocol, "the frames of a turn are the events of a legal stream, " +
			"with numbers from 0 in each", socketGrammar},
		{"sockets/forbidden fields", Protocol,
			"stream, stream_options and background are refused even when they are null", socketForbidden},
		{"sockets/bad frames", Protocol, "a message other than response.create is refused, and the connection goes on",
			socketBadFrames},
		{"sockets/stored", Protocol, "a response that was stored over HTTP is continued on a WebSocket, and the " +
			"other way round", socketStored},
		{"sockets/tools", Protocol, "the output of a call continues a response that is not stored", socketTools},
	}
}

func socketGrammar(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		for range 2 {
			t := c.create(ctx, message{"input": "Count from 1 to 5."})
			if _, err := t.completed(s); err != nil {
				return err
			}
			var check Checker
			for _, data := range t.frames {
				if err := check.Event(data); err != nil {
					return err
				}
			}
			if err := check.End(); err != nil {
				return err
			}
		}
		return nil
	})
}

// refused demands an error event with a status of the client's fault.
func (t turn) refused() error {
	return errors.Join(append(t.errs, expect(t.code != "" && t.status >= 400 && t.status < 500,
		"the frame was not refused: code %q, status %d", t.code, t.status))...)
}

func socketForbidden(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		var errs []error
		for _, m := range []message{{"stream": true}, {"stream": nil}, {"stream_options": nil}, {"background": false}} {
			m["input"] = "Say hello."
			errs = append(errs, c.create(ctx, m).refused())
		}
		_, err := c.create(ctx, message{"input": "Say hello."}).completed(s)
		return errors.Join(append(errs, err)...)
	})
}

func socketBadFrames(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		var errs []error
		for _, frame := range []string{`{`, `[]`, `null`, `{"type":"response.cancel"}`, `{"input":"Say hello."}`,
			`{"type":"response.create","input":5}`} {
			errs = append(errs, c.exchange(ctx, []byte(frame)).refused())
		}
		_, err := c.create(ctx, message{"input": "Say hello."}).completed(s)
		return errors.Join(append(errs, err)...)
	})
}

func socketStored(ctx context.Context, s *Suite) error {
	first, err := s.completes(ctx, s.request(`{"input":"The code word is plum."}`))
	if err != nil {
		return err
	}
	return s.on(ctx, func(c *session) error {
		second, err := c.create(ctx, message{"previous_response_id": first.str("id"),
			"input": "What is the code word?"}).completed(s)
		if err != nil {
			return err
		}
		a, err := s.do(ctx, http.MethodGet, "/responses/"+second.str("id"), nil)
		if err != nil {
			return err
		}
		_, err = s.completes(ctx, s.request(`{"previous_response_id":%s,"input":"Say it again."}`,
			quote(second.str("id"))))
		return errors.Join(err, expect(a.status == http.StatusOK, "GET answered %d: %.300s", a.status, a.body))
	})
}

func socketTools(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		tools := []any{map[string]any{"type": "function", "name": "get_weather",
			"parameters": map[string]any{"type": "object"}}}
		first, err := c.create(ctx, message{"store": false, "input": "What's the weather like in San Francisco?",
			"tools": tools}).completed(s)
		if err != nil {
			return err
		}
		call := first.first("function_call")
		if call == nil {
			return errors.New("the response has no call")
		}
		output := []any{map[string]any{"type": "function_call_output", "call_id": call["call_id"],
			"output": "It rains."}}
		next, err := c.create(ctx, message{"store": false, "previous_response_id": first.str("id"), "input": output,
			"tools": tools}).completed(s)
		return errors.Join(err, expect(err != nil || next.text() != "", "the answer has no text"))
	})
}
