package conform

import (
	"net/http"
	"slices"
)

// officialSocket are the eight cases that the official suite has for WebSockets.
func officialSocket() []Case {
	return []Case{
		{"websocket-response", Official, "a turn on a WebSocket", func(t *trial) {
			t.on(func(c *session) { c.completed(message{"input": user("Say hello.")}) })
		}},
		{"websocket-sequential-responses", Official, "two turns on one WebSocket", func(t *trial) {
			t.on(func(c *session) {
				c.completed(message{"store": false, "input": "Reply with exactly: first"})
				c.completed(message{"store": false, "input": "Reply with exactly: second"})
			})
		}},
		{"websocket-continuation", Official, "a response that was not stored is continued on its WebSocket",
			func(t *trial) {
				t.on(func(c *session) { c.completed(codeWord(c.remember())) })
			}},
		{"websocket-reconnect-store-false-recovery", Official,
			"a response that was not stored is gone on another WebSocket, which stays usable", socketReconnect},
		{"websocket-previous-response-not-found", Official, "an unknown previous response is refused",
			func(t *trial) {
				t.on(func(c *session) { c.notFound(codeWord("resp_conformance_missing")) })
			}},
		{"websocket-failed-continuation-evicts-cache", Official,
			"a continuation that fails takes what it continued with it", socketEvicts},
		{"websocket-warm-up", Official, "with generate false there is no output, and the response can be continued",
			func(t *trial) {
				t.on(func(c *session) {
					r := c.completed(message{"store": false, "generate": false, "input": "The code word is plum. Remember it."})
					output, _ := r["output"].([]any)
					t.expect(len(output) == 0, "the output is %v, want none", r["output"])
					c.completed(codeWord(r.str("id")))
				})
			}},
		{"websocket-compact-new-chain", Official, "what compacting gave begins a new chain", socketCompact},
	}
}

func user(text string) []any {
	return []any{map[string]any{"type": "message", "role": "user", "content": text}}
}

func (c *session) remember() (id string) {
	r := c.clean(message{"store": false, "input": "The code word is plum. Remember it."})
	c.t.demand(r.str("id") != "", "the response has no id")
	return r.str("id")
}

func codeWord(id string) message {
	return message{"store": false, "previous_response_id": id, "input": "What is the code word?"}
}

func socketReconnect(t *trial) {
	var id string
	t.on(func(c *session) { id = c.remember() })
	t.on(func(c *session) {
		c.notFound(codeWord(id))
		c.clean(message{"store": false, "input": user("Say hello.")})
	})
}

func socketEvicts(t *trial) {
	t.on(func(c *session) {
		id := c.remember()
		orphan := []any{map[string]any{"type": "function_call_output", "call_id": "call_conformance_missing",
			"output": "nothing"}}
		failed := c.create(message{"store": false, "previous_response_id": id, "input": orphan})
		status := ""
		if failed.response != nil {
			status = t.resource(failed.response).str("status")
		}
		t.expect(failed.code != "" || status == "failed",
			"the output of a call that was never made was accepted: %q, %v", status, failed.errs)
		c.notFound(codeWord(id))
	})
}

func socketCompact(t *trial) {
	compacted := t.compact(
		`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"The code word is plum."}]},` +
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I will remember it."}]},` +
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"Good."}]}]}`)
	output, _ := compacted["output"].([]any)
	t.on(func(c *session) {
		c.completed(message{"store": false, "tools": []any{},
			"input": slices.Concat(output, user("What is the code word?"))})
	})
}

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
			var check Checker
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
			c.request([]byte(frame)).refused(t)
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
