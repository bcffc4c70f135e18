package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// answer is an answer read whole.
type answer struct {
	status      int
	contentType string
	header      http.Header
	body        []byte
}

// begin sends a request; the caller closes the answer's body.
func (s *Suite) begin(ctx context.Context, method, path string, body []byte, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.http.Do(req)
}

func (s *Suite) do(ctx context.Context, method, path string, body []byte, header ...string) (answer, error) {
	resp, err := s.begin(ctx, method, path, body, header...)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: answered %d with content type %q: %w", method, path, resp.StatusCode,
			resp.Header.Get("Content-Type"), err)
	}
	return answer{resp.StatusCode, media, resp.Header, data}, nil
}

func (s *Suite) post(ctx context.Context, body []byte, header ...string) (answer, error) {
	return s.do(ctx, http.MethodPost, "/responses", body, header...)
}

// request encodes a request body and fills in the model. Its argument is JSON,
// with verbs for args.
func (s *Suite) request(format string, args ...any) []byte {
	raw := fmt.Sprintf(format, args...)
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return []byte(raw) // it is meant to be malformed
	}
	if _, ok := m["model"]; !ok {
		m["model"] = quote(s.Model)
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

// resource is a response object that was checked.
type resource map[string]any

func (r resource) str(key string) string {
	v, _ := r[key].(string)
	return v
}

func (r resource) output() (items []map[string]any) {
	list, _ := r["output"].([]any)
	for _, v := range list {
		item, _ := v.(map[string]any)
		items = append(items, item)
	}
	return items
}

// first returns the first output item of a type, nil if there is none.
func (r resource) first(typ string) map[string]any {
	for _, item := range r.output() {
		if item["type"] == typ {
			return item
		}
	}
	return nil
}

// text joins the text of the output's messages.
func (r resource) text() string {
	var b strings.Builder
	for _, item := range r.output() {
		parts, _ := item["content"].([]any)
		for _, p := range parts {
			part, _ := p.(map[string]any)
			if text, ok := part["text"].(string); ok && item["type"] == "message" {
				b.WriteString(text)
			}
		}
	}
	return b.String()
}

// resource decodes a response object and checks its shape.
func (s *Suite) resource(data []byte) (resource, error) {
	ev := &event{}
	ev.object = object{ev: ev}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&ev.keys); err != nil {
		return nil, fmt.Errorf("the response is no JSON object: %w: %.500s", err, data)
	}
	checkResponse(&ev.object)
	if ev.fault != nil {
		return nil, fmt.Errorf("the response breaks the rule %s: %s", ev.fault.Rule, ev.fault.Detail)
	}
	if s.Schemas != nil {
		if err := s.Schemas.Object("ResponseResource", data); err != nil {
			return nil, err
		}
	}
	return resource(ev.keys), nil
}

// created posts a request that must be answered with a response object.
func (s *Suite) created(ctx context.Context, body []byte) (resource, error) {
	a, err := s.post(ctx, body)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK || a.contentType != "application/json" {
		return nil, fmt.Errorf("answered %d, %s: %.500s", a.status, a.contentType, a.body)
	}
	return s.resource(a.body)
}

// completes is created for a request that must end well and with output.
func (s *Suite) completes(ctx context.Context, body []byte) (resource, error) {
	r, err := s.created(ctx, body)
	if err != nil {
		return nil, err
	}
	return r, completed(r)
}

func completed(r resource) error {
	return errors.Join(
		expect(r.str("status") == "completed", "the response is %q: %v", r.str("status"), r["error"]),
		expect(len(r.output()) > 0, "the response has no output"),
		expect(r["usage"] != nil, "usage is null"))
}

// streamed posts a request for a stream, checks every byte and event of the
// answer, and returns the final response and the encoded events.
func (s *Suite) streamed(ctx context.Context, body []byte, f stream.Framing) (resource, [][]byte, error) {
	accept := "application/json" // what SDKs send
	if f == stream.NDJSON {
		accept = stream.TypeNDJSON
	}
	a, err := s.post(ctx, body, "Accept", accept)
	if err != nil {
		return nil, nil, err
	}
	return s.checkStream(a, f, new(Checker))
}

func (s *Suite) checkStream(a answer, f stream.Framing, c *Checker) (resource, [][]byte, error) {
	if a.status != http.StatusOK || a.contentType != f.ContentType() {
		return nil, nil, fmt.Errorf("answered %d, %s, want %s: %.500s", a.status, a.contentType, f.ContentType(),
			a.body)
	}
	if err := c.Stream(bytes.NewReader(a.body), f); err != nil {
		return nil, nil, fmt.Errorf("%w: %.5000s", err, a.body)
	}
	var last struct {
		Response json.RawMessage `json:"response"`
	}
	var events [][]byte
	for data, err := range stream.Events(bytes.NewReader(a.body), f) {
		if err != nil {
			return nil, nil, err
		}
		if s.Schemas != nil && !c.Extensions {
			if err := s.Schemas.Event(data); err != nil {
				return nil, nil, err
			}
		}
		last.Response = nil
		if err := json.Unmarshal(data, &last); err != nil {
			return nil, nil, err
		}
		events = append(events, slices.Clone(data))
	}
	r, err := s.resource(last.Response)
	return r, events, err
}

// fails checks an error envelope: four keys, all strings, since clients lose
// the message when one is null.
func fails(a answer, statuses ...int) (map[string]any, error) {
	if !slices.Contains(statuses, a.status) || a.contentType != "application/json" {
		return nil, fmt.Errorf("answered %d, %s, want %v and application/json: %.500s", a.status, a.contentType,
			statuses, a.body)
	}
	var env struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal(a.body, &env); err != nil {
		return nil, fmt.Errorf("the error has no envelope: %w: %.500s", err, a.body)
	}
	var errs []error
	for _, key := range []string{"message", "type", "param", "code"} {
		s, ok := env.Error[key].(string)
		errs = append(errs, expect(ok && (s != "" || key == "param"), "%s of the error is %v, want a string", key,
			env.Error[key]))
	}
	return env.Error, errors.Join(errs...)
}
