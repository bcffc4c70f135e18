package conform

import "slices"

// officialSocket are the seven cases that the official suite has for WebSockets.
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
		{"websocket-compact-new-chain", Official, "what compacting gave begins a new chain", socketCompact},
	}
}

func user(text string) []any {
	return []any{map[string]any{"type": "message", "role": "user", "content": text}}
}

// remember runs a first turn that later ones continue.
func (c *session) remember() (id string) {
	r := c.clean(message{"store": false, "input": "The code word is plum. Remember it."})
	c.t.demand(r.str("id") != "", "the response has no id")
	return r.str("id")
}

// codeWord continues a response.
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
