package conform

import (
	"context"
	"errors"
	"net/http"

	"holon/responses/stream"
)

func stateCases() []Case {
	return []Case{
		{"continuation", Protocol, "previous_response_id continues a response", continuation},
		{"continuation/streamed", Protocol, "a streamed response can be continued at once",
			func(ctx context.Context, s *Suite) error {
				first, _, err := s.streamed(ctx, s.request(
					`{"input":"Remember the word plum.","store":true,"stream":true}`), stream.SSE)
				if err != nil {
					return err
				}
				_, err = s.completes(ctx, s.request(`{"input":"Which word?","previous_response_id":%s}`,
					quote(first.str("id"))))
				return err
			}},
		{"continuation/forked", Protocol, "two responses may continue the same one", forked},
		{"continuation/not stored", Protocol, "a response that was not stored cannot be continued", notStored},
		{"continuation/open call", Protocol, "a call that is not answered is not passed over", openCall},
		{"item reference", Protocol, "an item of a stored response may be sent by its id alone", itemReference},
		{"compact/input", Protocol, "what compacting gave is accepted as input", compactedInput},
	}
}

func continuation(ctx context.Context, s *Suite) error {
	first, err := s.completes(ctx, s.request(`{"input":"Remember the word plum.","store":true}`))
	if err != nil {
		return err
	}
	second, err := s.completes(ctx, s.request(`{"input":"Which word?","previous_response_id":%s}`,
		quote(first.str("id"))))
	if err != nil {
		return err
	}
	return errors.Join(
		expect(second["previous_response_id"] == first["id"] && second["id"] != first["id"],
			"response %v continues %v, want %v", second["id"], second["previous_response_id"], first["id"]),
		expect(first["previous_response_id"] == nil, "the first response continues %v", first["previous_response_id"]))
}

func forked(ctx context.Context, s *Suite) error {
	first, err := s.completes(ctx, s.request(`{"input":"Remember the word plum."}`))
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := s.completes(ctx, s.request(`{"input":"Which word?","previous_response_id":%s}`,
			quote(first.str("id")))); err != nil {
			return err
		}
	}
	return nil
}

func notStored(ctx context.Context, s *Suite) error {
	first, err := s.completes(ctx, s.request(`{"input":"Remember the word plum.","store":false}`))
	if err != nil {
		return err
	}
	a, err := s.post(ctx, s.request(`{"input":"Which word?","previous_response_id":%s}`, quote(first.str("id"))))
	if err != nil {
		return err
	}
	e, err := fails(a, http.StatusNotFound)
	return errors.Join(err, expect(e["code"] == "previous_response_not_found", "code %v", e["code"]))
}

func openCall(ctx context.Context, s *Suite) error {
	first, _, err := s.callWeather(ctx, "")
	if err != nil {
		return err
	}
	a, err := s.post(ctx, s.request(`{"input":"Never mind.","previous_response_id":%s}`, quote(first.str("id"))))
	return failed(a, err, http.StatusBadRequest)
}

// itemReference continues a conversation as a client does that sends the
// assistant's earlier messages by id and no previous_response_id.
func itemReference(ctx context.Context, s *Suite) error {
	first, err := s.completes(ctx, s.request(`{"input":"Remember the word plum.","store":true}`))
	if err != nil {
		return err
	}
	id, _ := first.first("message")["id"].(string)
	for _, reference := range []string{`{"type":"item_reference","id":%s}`, `{"id":%s}`} {
		if _, err := s.completes(ctx, s.request(`{"input":[{"role":"user","content":"Remember the word plum."},`+
			reference+`,{"role":"user","content":"Which word?"}]}`, quote(id))); err != nil {
			return err
		}
	}
	return nil
}

func compactedInput(ctx context.Context, s *Suite) error {
	compacted, err := s.compact(ctx, s.request(
		`{"input":[{"role":"user","content":"The code word is plum."},{"role":"assistant","content":"Noted."}]}`))
	if err != nil {
		return err
	}
	input := append(compacted["output"].([]any), user("What is the code word?")...)
	_, err = s.completes(ctx, s.request(`{"input":%s}`, encode(input)))
	return err
}
