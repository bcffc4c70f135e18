package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"holon/runner/control/wire"
	"holon/test/conform/schema"
	"holon/test/expect"
)

// described is the server's own document, as a stranger reads it.
type described struct {
	doc     *openapi3.T
	schemas *schema.Document
	paths   *chi.Mux
}

// documents are those that were read, by their text: to read one takes longer than most tests.
var documents sync.Map

func (r *rig) described() *described {
	r.t.Helper()
	text := must(r.client().OpenAPI(r.t.Context()))(r.t)
	read, _ := documents.LoadOrStore(string(text), sync.OnceValues(func() (*described, error) { return describe(text) }))
	d, err := read.(func() (*described, error))()
	expect.NoError(r.t, err)
	return d
}

func describe(text []byte) (*described, error) {
	d := &described{paths: chi.NewRouter()}
	var err error
	if d.schemas, err = schema.Parse(text); err != nil {
		return nil, err
	}
	if d.doc, err = openapi3.NewLoader().LoadFromData(text); err != nil {
		return nil, err
	}
	for path, item := range d.doc.Paths.Map() {
		for method := range item.Operations() {
			d.paths.MethodFunc(method, path, http.NotFound)
		}
	}
	return d, d.doc.Validate(context.Background())
}

// request is one that a test makes.
type request struct {
	method, path, body string
	header             map[string]string
	tcp                bool // through the TCP port; the token is sent unless Authorization is in header
	host               string
}

// answer is what came back, read to its end.
type answer struct {
	status  int
	header  http.Header
	body    string
	failure wire.FailureInfo
}

// ask makes a request and finds what of its answer the document does not say.
func (r *rig) ask(d *described, q request) answer {
	r.t.Helper()
	base, hc := "http://holon", r.raw()
	defer hc.CloseIdleConnections() // a test that asks until something is so would have all that there may be
	if q.tcp {
		base, hc = "http://"+r.addr, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	req, err := http.NewRequestWithContext(r.t.Context(), q.method, base+q.path, strings.NewReader(q.body))
	expect.NoError(r.t, err)
	if q.tcp {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if q.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.header {
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	req.Host = q.host
	resp, err := hc.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", q.method, q.path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	expect.NoError(r.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
	if a.status >= 400 {
		e := wire.DecodeFailure(a.status, body)
		a.failure = wire.FailureInfo{Code: e.Code, Message: e.Message, Param: e.Param, Hint: e.Hint}
		if wire.Status(e.Code) != a.status {
			r.t.Errorf("%s %s: code %s came with %d", q.method, q.path, e.Code, a.status)
		}
	}
	if err := d.check(q, req.URL.EscapedPath(), a); err != nil {
		r.t.Errorf("%s %s: %v", q.method, q.path, err)
	}
	return a
}

func (d *described) check(q request, path string, a answer) error {
	if a.header.Get(wire.HeaderRequestID) == "" || a.header.Get("Cache-Control") != "no-store" {
		return fmt.Errorf("headers %v", a.header)
	}
	route := chi.NewRouteContext()
	if !d.paths.Match(route, q.method, path) {
		if a.status == 404 || a.status == 405 || a.status == 401 || a.status == 403 {
			return nil
		}
		return fmt.Errorf("it is not described and was answered with %d", a.status)
	}
	pattern := route.RoutePattern()
	at := "/paths/" + strings.ReplaceAll(pattern, "/", "~1") + "/" + strings.ToLower(q.method)
	op := d.doc.Paths.Value(pattern).GetOperation(q.method)
	status := strconv.Itoa(a.status)
	answer := op.Responses.Value(status)
	if answer == nil {
		return fmt.Errorf("the status %s is not described: %.200s", status, a.body)
	}
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if answer.Value.Content[kind] == nil {
		return fmt.Errorf("the media type %q is not described", kind)
	}
	var problems []error
	if kind == "application/json" {
		pointer := at + "/responses/" + status
		if answer.Ref != "" {
			pointer = strings.TrimPrefix(answer.Ref, "#")
		}
		if err := d.schemas.At(pointer+"/content/application~1json/schema", []byte(a.body)); err != nil {
			problems = append(problems, fmt.Errorf("answer %.300s: %w", a.body, err))
		}
	}
	if body := op.RequestBody; a.status == 200 && body != nil && body.Value.Content["application/json"] != nil &&
		q.body != "" && !strings.Contains(q.body, "Id\"") {
		if err := d.schemas.At(at+"/requestBody/content/application~1json/schema", []byte(q.body)); err != nil {
			problems = append(problems, fmt.Errorf("the request was taken: %w", err))
		}
	}
	return errors.Join(problems...)
}

func post(path, body string) request { return request{method: "POST", path: path, body: body} }

func get(path string) request { return request{method: "GET", path: path} }

func (a answer) is(t *testing.T, what string, status int, code, param string) {
	t.Helper()
	expect.Equal(t, what+": status", a.status, status)
	expect.Equal(t, what+": code", string(a.failure.Code), code)
	expect.Equal(t, what+": param", a.failure.Param, param)
	if code != "" && a.failure.Hint == "" && !strings.HasPrefix(code, "invalid_message") && code != "not_found" &&
		code != "trigger_unknown" {
		t.Errorf("%s: no remedy: %+v", what, a.failure)
	}
}
