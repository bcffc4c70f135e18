package conform

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"holon/responses/stream"
)

func streaming() []Case {
	return []Case{
		{"streams/sse", Protocol, "every byte and event of a stream is legal, and it gives what JSON gives",
			func(t *trial) { sameAsJSON(t, stream.SSE) }},
		{"streams/ndjson", Extension, "the same, one event a line", func(t *trial) { sameAsJSON(t, stream.NDJSON) }},
		{"streams/headers", Protocol, "a stream is neither compressed nor kept by caches", func(t *trial) {
			a := t.post(t.request(`{"input":"Say hello.","stream":true}`), "Accept-Encoding", "gzip")
			t.expect(a.contentType == stream.TypeSSE, "content type %q", a.contentType)
			t.expect(a.header.Get("Content-Encoding") == "", "content encoding %q", a.header.Get("Content-Encoding"))
			t.expect(a.header.Get("Cache-Control") != "", "there is no Cache-Control")
		}},
		{"streams/call", Protocol, "a stream with a function call is legal", func(t *trial) {
			r, events := t.streamed(`{%s,"stream":true,"tools":[%s]}`, askWeather, weather)
			t.expect(r.first("function_call") != nil, "the stream has no function_call")
			t.expect(bytes.Contains(bytes.Join(events, nil), []byte(`"response.function_call_arguments.done"`)),
				"there are no arguments")
		}},
		{"streams/limit", Protocol, "reaching max_output_tokens makes item and response incomplete", func(t *trial) {
			r, _ := t.streamed(`{"input":"Count from 1 to 500.","max_output_tokens":16,"stream":true}`)
			details, _ := r["incomplete_details"].(map[string]any)
			t.expect(r.str("status") == "incomplete" && details["reason"] == "max_output_tokens",
				"the response is %q because of %v", r.str("status"), details)
			items := r.output()
			t.expect(len(items) > 0 && items[len(items)-1]["status"] == "incomplete",
				"the last item is not incomplete: %v", items)
		}},
		{"streams/refused", Protocol, "a stream that cannot begin is refused with a status", func(t *trial) {
			t.fails(t.post(t.request(`{"input":5,"stream":true}`)), http.StatusBadRequest)
		}},
	}
}

// sameAsJSON compares the final response of a stream with that of the same
// request as JSON, as far as a model repeats itself.
func sameAsJSON(t *trial, f stream.Framing) {
	accept := "application/json" // what SDKs send
	if f == stream.NDJSON {
		accept = stream.TypeNDJSON
	}
	streamed, _ := t.checkStream(t.post(t.request(
		`{"input":"Count from 1 to 5.","stream":true,"stream_options":{"include_obfuscation":false}}`),
		"Accept", accept), f, &Checker{})
	plain := t.completes(`{"input":"Count from 1 to 5."}`)
	t.completed(streamed)
	t.expect(len(streamed) == len(plain), "the streamed response has %d keys and the JSON one %d", len(streamed),
		len(plain))
	own := []string{"id", "created_at", "completed_at", "output", "usage", "holon"}
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		t.expect(slices.Contains(own, key) || equal(streamed[key], plain[key]),
			"%s is %v in the JSON answer and %v in the stream", key, plain[key], streamed[key])
	}
}

// readUntil reads events of a stream until one of a type came, and leaves. It
// returns the response's id and the last sequence number that it saw.
func (t *trial) readUntil(body []byte, typ string) (id string, last int64) {
	resp := t.begin(http.MethodPost, "/responses", body)
	defer resp.Body.Close()
	t.demand(resp.StatusCode == http.StatusOK, "answered %d", resp.StatusCode)
	for data, err := range stream.NewDecoder(resp.Body, stream.SSE).Events() {
		t.must(err)
		var ev struct {
			Type     string `json:"type"`
			Sequence int64  `json:"sequence_number"`
			Response struct {
				ID string `json:"id"`
			} `json:"response"`
		}
		t.must(json.Unmarshal(data, &ev))
		if ev.Response.ID != "" {
			id = ev.Response.ID
		}
		if ev.Type == typ {
			return id, ev.Sequence
		}
	}
	t.demand(false, "there was no %s", typ)
	return "", 0
}
