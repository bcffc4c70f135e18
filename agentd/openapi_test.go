package agentd_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"holon/responses/stream"
	"holon/test/conform"
	"holon/test/conform/schema"
)

// validator checks every answer that a test reads to its end by the document
// that the server gives of itself. Those of POST /responses it checks further:
// streams by the rules of package conform, and all JSON by the protocol's own
// document.
type validator struct {
	t    *testing.T
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (v *validator) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := sentBy(req)
	resp, err := v.next.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	resp.Body = &tee{ReadCloser: resp.Body, done: func(answer []byte) {
		if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/responses") &&
			resp.StatusCode == http.StatusOK {
			v.check(resp.Header.Get("Content-Type"), answer)
		}
		own, err := ours()
		if err == nil {
			err = own.check(exchange{req, resp, sent, answer})
		}
		if err != nil {
			v.t.Errorf("by /openapi.json: %v", err)
		}
	}}
	return resp, nil
}

type tee struct {
	io.ReadCloser
	done func(seen []byte) // called once, at the end
	seen bytes.Buffer
	once sync.Once
}

func (b *tee) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.seen.Write(p[:n])
	if errors.Is(err, io.EOF) {
		b.once.Do(func() { b.done(b.seen.Bytes()) })
	}
	return n, err
}

func (v *validator) check(contentType string, body []byte) {
	doc, err := schema.Official()
	if err != nil {
		v.t.Error(err)
		return
	}
	framing := stream.Accepted(contentType)
	if framing.ContentType() != contentType { // JSON
		if err := doc.Object("ResponseResource", body); err != nil {
			v.t.Error(err)
		}
		return
	}
	if err := conform.CheckStream(body, framing); err != nil {
		v.t.Errorf("%v\n%.3000s", err, body)
	}
	for data, err := range stream.NewDecoder(bytes.NewReader(body), framing).Events() {
		if err == nil {
			err = doc.Event(data)
		}
		if err != nil {
			v.t.Error(err)
			return
		}
	}
}

func TestAnswersAreValidated(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(*validator){
		"a response": func(v *validator) { v.check("application/json", []byte(`{"object":"response"}`)) },
		"an event": func(v *validator) {
			v.check(stream.TypeNDJSON, []byte(`{"type":"response.created","sequence_number":"0"}`+"\n"))
		},
	} {
		spy := new(testing.T)
		check(&validator{t: spy})
		if !spy.Failed() {
			t.Errorf("%s that is broken was let through", name)
		}
	}
}
