package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"holon/responses/stream"
)

func streaming() []Case {
	return []Case{
		{"streams/sse", Protocol, "every byte and event of a stream is legal, and it gives what JSON gives",
			func(ctx context.Context, s *Suite) error {
				return sameAsJSON(ctx, s, stream.SSE)
			}},
		{"streams/ndjson", Extension, "the same, one event a line", func(ctx context.Context, s *Suite) error {
			return sameAsJSON(ctx, s, stream.NDJSON)
		}},
		{"streams/headers", Protocol, "a stream is neither compressed nor kept by caches", streamHeaders},
		{"streams/call", Protocol, "a stream with a function call is legal", func(ctx context.Context, s *Suite) error {
			r, events, err := s.streamed(ctx, s.request(
				`{"input":"What's the weather like in San Francisco?","stream":true,"tools":[%s]}`,
				weather), stream.SSE)
			if err != nil {
				return err
			}
			return errors.Join(expect(r.first("function_call") != nil, "the stream has no function_call"),
				expect(bytes.Contains(bytes.Join(events, nil), []byte(`"response.function_call_arguments.done"`)),
					"there are no arguments"))
		}},
		{"streams/limit", Protocol, "reaching max_output_tokens makes item and response incomplete", streamLimit},
		{"streams/refused", Protocol, "a stream that cannot begin is refused with a status",
			func(ctx context.Context, s *Suite) error {
				a, err := s.post(ctx, s.request(`{"input":5,"stream":true}`))
				return failed(a, err, http.StatusBadRequest)
			}},
	}
}

// sameAsJSON compares the final response of a stream with that of the same
// request as JSON, as far as a model repeats itself.
func sameAsJSON(ctx context.Context, s *Suite, f stream.Framing) error {
	streamed, _, err := s.streamed(ctx,
		s.request(`{"input":"Count from 1 to 5.","stream":true,"stream_options":{"include_obfuscation":false}}`), f)
	if err != nil {
		return err
	}
	plain, err := s.completes(ctx, s.request(`{"input":"Count from 1 to 5."}`))
	if err != nil {
		return err
	}
	errs := []error{completed(streamed),
		expect(len(streamed) == len(plain), "the streamed response has %d keys and the JSON one %d", len(streamed),
			len(plain))}
	own := []string{"id", "created_at", "completed_at", "output", "usage"}
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		if !slices.Contains(own, key) {
			errs = append(errs, expect(equal(streamed[key], plain[key]),
				"%s is %v in the JSON answer and %v in the stream", key, plain[key], streamed[key]))
		}
	}
	return errors.Join(errs...)
}

func streamHeaders(ctx context.Context, s *Suite) error {
	a, err := s.post(ctx, s.request(`{"input":"Say hello.","stream":true}`), "Accept-Encoding", "gzip")
	if err != nil {
		return err
	}
	return errors.Join(
		expect(a.contentType == stream.TypeSSE, "content type %q", a.contentType),
		expect(a.header.Get("Content-Encoding") == "", "content encoding %q", a.header.Get("Content-Encoding")),
		expect(a.header.Get("Cache-Control") != "", "there is no Cache-Control"))
}

func streamLimit(ctx context.Context, s *Suite) error {
	r, _, err := s.streamed(ctx, s.request(`{"input":"Count from 1 to 500.","max_output_tokens":16,"stream":true}`),
		stream.SSE)
	if err != nil {
		return err
	}
	details, _ := r["incomplete_details"].(map[string]any)
	items := r.output()
	return errors.Join(
		expect(r.str("status") == "incomplete" && details["reason"] == "max_output_tokens",
			"the response is %q because of %v", r.str("status"), details),
		expect(len(items) > 0 && items[len(items)-1]["status"] == "incomplete", "the last item is not incomplete: %v",
			items))
}

// readUntil reads events of a stream until one of a type came, and leaves. It
// returns the response's id and the last sequence number that it saw.
func (s *Suite) readUntil(ctx context.Context, body []byte, typ string) (id string, last int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := s.begin(ctx, http.MethodPost, "/responses", body)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("answered %d", resp.StatusCode)
	}
	for data, err := range stream.Events(resp.Body, stream.SSE) {
		if err != nil {
			return "", 0, err
		}
		var ev struct {
			Type     string `json:"type"`
			Sequence int64  `json:"sequence_number"`
			Response struct {
				ID string `json:"id"`
			} `json:"response"`
		}
		if err := json.Unmarshal(data, &ev); err != nil {
			return "", 0, err
		}
		if ev.Response.ID != "" {
			id = ev.Response.ID
		}
		if ev.Type == typ {
			return id, ev.Sequence, nil
		}
	}
	return "", 0, fmt.Errorf("there was no %s", typ)
}
