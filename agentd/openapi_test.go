package agentd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"holon/responses"
	"holon/responses/conform"
	"holon/responses/stream"
)

// document is the protocol's own OpenAPI document, which lies beside the
// module; nil where it does not.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	path := filepath.Join("..", "..", "shared", "openresponses", "openapi.json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return openapi3.NewLoader().LoadFromFile(path)
})

func schemas(t *testing.T) (event map[string]*openapi3.Schema, response *openapi3.Schema) {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Error(err)
	}
	if doc == nil {
		return nil, nil
	}
	event = make(map[string]*openapi3.Schema)
	for name, ref := range doc.Components.Schemas {
		if strings.HasSuffix(name, "StreamingEvent") {
			event[ref.Value.Properties["type"].Value.Enum[0].(string)] = ref.Value
		}
	}
	return event, doc.Components.Schemas["ResponseResource"].Value
}

func validate(t *testing.T, schema *openapi3.Schema, data []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Errorf("%v: %.500s", err, data)
		return
	}
	if err := schema.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors()); err != nil {
		t.Errorf("%.1000s\n%v", data, err)
	}
}

// validator checks every answer of POST /responses that a test reads to its
// end: streams by the rules of package conform, and all JSON by the OpenAPI
// document where that is at hand.
type validator struct {
	t    *testing.T
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (v *validator) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := v.next.RoundTrip(req)
	if err == nil && req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/responses") && resp.StatusCode == http.StatusOK {
		resp.Body = &tee{ReadCloser: resp.Body, v: v, contentType: resp.Header.Get("Content-Type")}
	}
	return resp, err
}

type tee struct {
	io.ReadCloser
	v           *validator
	contentType string
	seen        bytes.Buffer
	once        sync.Once
}

func (b *tee) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.seen.Write(p[:n])
	if errors.Is(err, io.EOF) {
		b.once.Do(func() { b.v.check(b.contentType, b.seen.Bytes()) })
	}
	return n, err
}

func (v *validator) check(contentType string, body []byte) {
	events, response := schemas(v.t)
	framing, err := stream.FramingOf(contentType)
	if err != nil { // JSON
		if response != nil {
			validate(v.t, response, body)
		}
		return
	}
	if err := conform.CheckStream(bytes.NewReader(body), framing); err != nil {
		v.t.Errorf("%v\n%.3000s", err, body)
	}
	for data, err := range stream.Events(bytes.NewReader(body), framing) {
		if err != nil {
			v.t.Error(err)
			return
		}
		if schema := events[responses.EventType(data)]; schema != nil {
			validate(v.t, schema, data)
		} else if events != nil {
			v.t.Errorf("the document has no event %q", responses.EventType(data))
		}
	}
}

func TestAnswersAreValidated(t *testing.T) {
	if doc, err := document(); doc == nil {
		t.Skipf("the OpenAPI document is absent (%v)", err)
	}
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
