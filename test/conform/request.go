package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"holon/responses/stream"
)

// maxBody bounds what the suite reads of one answer.
const maxBody = 64 << 20

type answer struct {
	status      int
	contentType string
	header      http.Header
	body        []byte
}

// begin sends a request; the caller closes the answer's body.
func (t *trial) begin(method, path string, body []byte, header ...string) *http.Response {
	req, err := http.NewRequestWithContext(t.ctx, method, t.BaseURL+path, bytes.NewReader(body))
	t.must(err)
	req.Header.Set("Authorization", "Bearer "+t.Token)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := t.http.Do(req)
	t.must(err)
	return resp
}

func (t *trial) do(method, path string, body []byte, header ...string) answer {
	resp := t.begin(method, path, body, header...)
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	t.must(err)
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	t.demand(err == nil, "%s %s: answered %d with content type %q", method, path, resp.StatusCode,
		resp.Header.Get("Content-Type"))
	return answer{resp.StatusCode, media, resp.Header, data}
}

func (t *trial) get(path string) answer { return t.do(http.MethodGet, path, nil) }

func (t *trial) post(body []byte, header ...string) answer {
	return t.do(http.MethodPost, "/responses", body, header...)
}

func (a answer) isJSON(t *trial) {
	t.demand(a.status == http.StatusOK && a.contentType == "application/json", "answered %d, %s: %.500s", a.status,
		a.contentType, a.body)
}

func (a answer) into(t *trial, v any) {
	a.isJSON(t)
	t.must(json.Unmarshal(a.body, v))
}

// request encodes a request body and fills in the model. Its argument is JSON,
// with verbs for args.
func (t *trial) request(format string, args ...any) []byte {
	raw := fmt.Sprintf(format, args...)
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return []byte(raw) // it is meant to be malformed
	}
	if _, ok := m["model"]; !ok {
		m["model"] = quote(t.Model)
	}
	return encode(m)
}

func quote(s string) json.RawMessage { return encode(s) }

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil // only maps, lists and strings come here
	}
	return bytes.TrimSpace(b.Bytes())
}

// resource is a decoded object, as a rule a response.
type resource map[string]any

func (r resource) has(key string) bool {
	_, ok := r[key]
	return ok
}

func (r resource) str(key string) string {
	v, _ := r[key].(string)
	return v
}

func (r resource) list(key string) []any {
	list, _ := r[key].([]any)
	return list
}

func (r resource) output() (items []map[string]any) {
	for _, v := range r.list("output") {
		item, _ := v.(map[string]any)
		items = append(items, item)
	}
	return items
}

func (r resource) first(typ string) map[string]any {
	for _, item := range r.output() {
		if item["type"] == typ {
			return item
		}
	}
	return nil
}

func (r resource) text() string {
	var b strings.Builder
	for _, item := range r.output() {
		for _, p := range resource(item).list("content") {
			part, _ := p.(map[string]any)
			if text, ok := part["text"].(string); ok && item["type"] == "message" {
				b.WriteString(text)
			}
		}
	}
	return b.String()
}

// decode reads an object that has to fit a component of the document.
func (t *trial) decode(component string, data []byte, check func(*object)) resource {
	ev := decodeObject(data)
	if ev.fault == nil {
		t.must(t.doc.Object(component, data))
		check(&ev.object)
	}
	t.demand(ev.fault == nil, "the %s is wrong: %v: %.500s", component, ev.fault, data)
	return ev.resource
}

func (t *trial) resource(data []byte) resource {
	return t.decode("ResponseResource", data, checkResponse)
}

// created posts a request that must be answered with a response object. Its arguments are those of request.
func (t *trial) created(format string, args ...any) resource {
	a := t.post(t.request(format, args...))
	a.isJSON(t)
	return t.resource(a.body)
}

// completes is created for a request that must end well and with output.
func (t *trial) completes(format string, args ...any) resource {
	r := t.created(format, args...)
	t.completed(r)
	return r
}

func (t *trial) completed(r resource) {
	t.demand(r.str("status") == "completed", "the response is %q: %v", r.str("status"), r["error"])
	t.demand(len(r.output()) > 0, "the response has no output")
	t.demand(r["usage"] != nil, "usage is null")
}

// streamed posts a request for a stream, as SDKs do, checks every byte and event of the answer, and returns the final
// response and the encoded events.
func (t *trial) streamed(format string, args ...any) (resource, [][]byte) {
	return t.checkStream(t.post(t.request(format, args...), "Accept", "application/json"), stream.SSE, &Checker{})
}

func (t *trial) checkStream(a answer, f stream.Framing, c *Checker) (resource, [][]byte) {
	t.demand(a.status == http.StatusOK && a.contentType == f.ContentType(), "answered %d, %s, want %s: %.500s", a.status,
		a.contentType, f.ContentType(), a.body)
	if err := c.Stream(a.body, f); err != nil {
		t.must(fmt.Errorf("%w: %.5000s", err, a.body))
	}
	events := t.collect(a.body, f)
	var last struct {
		Response resource `json:"response"`
	}
	dec := json.NewDecoder(bytes.NewReader(events[len(events)-1]))
	dec.UseNumber()
	t.must(dec.Decode(&last))
	return last.Response, events
}

func (t *trial) collect(body []byte, f stream.Framing) (events [][]byte) {
	for data, err := range stream.NewDecoder(bytes.NewReader(body), f).Events() {
		t.must(err)
		events = append(events, bytes.Clone(data))
	}
	return events
}

// fails checks an error envelope: four keys, all strings, since clients lose
// the message when one is null.
func (t *trial) fails(a answer, statuses ...int) map[string]any {
	t.demand(slices.Contains(statuses, a.status) && a.contentType == "application/json",
		"answered %d, %s, want %v and application/json: %.500s", a.status, a.contentType, statuses, a.body)
	var env struct {
		Error map[string]any `json:"error"`
	}
	t.must(json.Unmarshal(a.body, &env))
	for _, key := range []string{"message", "type", "param", "code"} {
		s, ok := env.Error[key].(string)
		t.expect(ok && (s != "" || key == "param"), "%s of the error is %v, want a string", key, env.Error[key])
	}
	return env.Error
}
