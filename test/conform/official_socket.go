package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// officialSocket are the seven cases that the official suite has for WebSockets.
func officialSocket() []Case {
	return []Case{
		{"websocket-response", Official, "a turn on a WebSocket", socketResponse},
		{"websocket-sequential-responses", Official, "two turns on one WebSocket", socketSequential},
		{"websocket-continuation", Official, "a response that was not stored is continued on its WebSocket",
			socketContinuation},
		{"websocket-reconnect-store-false-recovery", Official,
			"a response that was not stored is gone on another WebSocket, which stays usable", socketReconnect},
		{"websocket-previous-response-not-found", Official, "an unknown previous response is refused", socketUnknown},
		{"websocket-failed-continuation-evicts-cache", Official,
			"a continuation that fails takes what it continued with it", socketEvicts},
		{"websocket-compact-new-chain", Official, "what compacting gave begins a new chain", socketCompact},
	}
}

func user(text string) []any {
	return []any{map[string]any{"type": "message", "role": "user", "content": text}}
}

// on runs f on a WebSocket of its own.
func (s *Suite) on(ctx context.Context, f func(*session) error) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	return f(c)
}

func socketResponse(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		_, err := c.create(ctx, message{"input": user("Say hello.")}).completed(s)
		return err
	})
}

func socketSequential(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		_, first := c.create(ctx, message{"store": false, "input": "Reply with exactly: first"}).completed(s)
		_, second := c.create(ctx, message{"store": false, "input": "Reply with exactly: second"}).completed(s)
		return errors.Join(first, second)
	})
}

// remember runs a first turn that later ones continue.
func remember(ctx context.Context, s *Suite, c *session) (id string, err error) {
	r, err := c.create(ctx, message{"store": false, "input": "The code word is plum. Remember it."}).clean(s)
	if err == nil {
		err = expect(r.str("id") != "", "the response has no id")
	}
	return r.str("id"), err
}

func socketContinuation(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		id, err := remember(ctx, s, c)
		if err != nil {
			return err
		}
		_, err = c.create(ctx, message{"store": false, "previous_response_id": id,
			"input": "What is the code word?"}).completed(s)
		return err
	})
}

func socketReconnect(ctx context.Context, s *Suite) error {
	var id string
	err := s.on(ctx, func(c *session) (err error) {
		id, err = remember(ctx, s, c)
		return err
	})
	if err != nil {
		return err
	}
	return s.on(ctx, func(c *session) error {
		gone := c.create(ctx, message{"store": false, "previous_response_id": id,
			"input": "What is the code word?"}).notFound()
		_, err := c.create(ctx, message{"store": false, "input": user("Say hello.")}).clean(s)
		return errors.Join(gone, err)
	})
}

func socketUnknown(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		return c.create(ctx, message{"store": false, "previous_response_id": "resp_conformance_missing",
			"input": "Go on."}).notFound()
	})
}

func socketEvicts(ctx context.Context, s *Suite) error {
	return s.on(ctx, func(c *session) error {
		id, err := remember(ctx, s, c)
		if err != nil {
			return err
		}
		orphan := []any{map[string]any{"type": "function_call_output", "call_id": "call_conformance_missing",
			"output": "nothing"}}
		failed := c.create(ctx, message{"store": false, "previous_response_id": id, "input": orphan})
		var status string
		if failed.response != nil {
			r, err := s.resource(failed.response)
			if err != nil {
				return err
			}
			status = r.str("status")
		}
		return errors.Join(
			expect(failed.code != "" || status == "failed",
				"the output of a call that was never made was accepted: %q, %v", status, failed.errs),
			c.create(ctx, message{"store": false, "previous_response_id": id,
				"input": "What is the code word?"}).notFound())
	})
}

func socketCompact(ctx context.Context, s *Suite) error {
	compacted, err := s.compact(ctx, s.request(
		`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"The code word is plum."}]},`+
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I will remember it."}]},`+
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"Good."}]}]}`))
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	output, _ := compacted["output"].([]any)
	return s.on(ctx, func(c *session) error {
		_, err := c.create(ctx, message{"store": false, "tools": []any{},
			"input": slices.Concat(output, user("What is the code word?"))}).completed(s)
		return err
	})
}
