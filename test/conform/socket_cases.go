package conform

import "net/http"

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

func socketGrammar(t *trial) {
	t.on(func(c *session) {
		for range 2 {
			got := c.create(message{"input": "Count from 1 to 5."})
			got.completed(t)
			check := Checker{doc: t.Schemas}
			for _, data := range got.frames {
				t.must(check.Event(data))
			}
			t.must(check.End())
		}
	})
}

// refused demands an error event with a status of the client's fault.
func (got turn) refused(t *trial) {
	t.errs = append(t.errs, got.errs...)
	t.expect(got.code != "" && got.status >= 400 && got.status < 500,
		"the frame was not refused: code %q, status %d", got.code, got.status)
}

func socketForbidden(t *trial) {
	t.on(func(c *session) {
		for _, m := range []message{{"stream": true}, {"stream": nil}, {"stream_options": nil}, {"background": false}} {
			m["input"] = "Say hello."
			c.create(m).refused(t)
		}
		c.completed(message{"input": "Say hello."})
	})
}

func socketBadFrames(t *trial) {
	t.on(func(c *session) {
		for _, frame := range []string{`{`, `[]`, `null`, `{"type":"response.cancel"}`, `{"input":"Say hello."}`,
			`{"type":"response.create","input":5}`} {
			c.exchange([]byte(frame)).refused(t)
		}
		c.completed(message{"input": "Say hello."})
	})
}

func socketStored(t *trial) {
	first := t.completes(`{"input":"The code word is plum."}`)
	t.on(func(c *session) {
		second := c.completed(message{"previous_response_id": first.str("id"), "input": "What is the code word?"})
		a := t.get("/responses/" + second.str("id"))
		t.expect(a.status == http.StatusOK, "GET answered %d: %.300s", a.status, a.body)
		t.completes(whichWord, quote(second.str("id")))
	})
}

func socketTools(t *trial) {
	t.on(func(c *session) {
		tools := []any{map[string]any{"type": "function", "name": "get_weather",
			"parameters": map[string]any{"type": "object"}}}
		first := c.completed(message{"store": false, "input": "What's the weather like in San Francisco?",
			"tools": tools})
		call := first.first("function_call")
		t.demand(call != nil, "the response has no call")
		output := []any{map[string]any{"type": "function_call_output", "call_id": call["call_id"],
			"output": "It rains."}}
		next := c.completed(message{"store": false, "previous_response_id": first.str("id"), "input": output,
			"tools": tools})
		t.expect(next.text() != "", "the answer has no text")
	})
}
