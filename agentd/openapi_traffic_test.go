package agentd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"holon/agentd"
	"holon/responses/stream"
	"holon/test/conform/schema"
	"holon/test/expect"
)

// described is the server's own document, as a stranger reads it.
type described struct {
	doc     *openapi3.T
	schemas *schema.Document
	paths   *chi.Mux
}

var ours = sync.OnceValues(func() (*described, error) {
	text := agentd.Description()
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
			d.paths.MethodFunc(method, strings.Replace(path, "/models/{id}", "/models/*", 1), http.NotFound)
		}
	}
	return d, nil
})

// exchange is a request and its answer, read to the end.
type exchange struct {
	req    *http.Request
	resp   *http.Response
	sent   []byte // the body of the request
	answer []byte
}

// check finds what of an exchange the document does not say.
func (d *described) check(x exchange) error {
	method := x.req.Method
	switch method {
	case http.MethodHead:
		method = http.MethodGet
	case http.MethodOptions: // said of all paths
		return nil
	}
	if x.resp.Header.Get("X-Request-Id") == "" {
		return errors.New("there is no X-Request-Id")
	}
	path := x.req.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		path = "/" + rest
	}
	route := chi.NewRouteContext()
	if !d.paths.Match(route, method, path) {
		if s := x.resp.StatusCode; s != http.StatusNotFound && s != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s is not described and was answered with %d", method, path, s)
		}
		return nil
	}
	pattern := strings.Replace(route.RoutePattern(), "*", "{id}", 1)
	at := "/paths/" + strings.ReplaceAll(pattern, "/", "~1") + "/" + strings.ToLower(method)
	op := d.doc.Paths.Value(pattern).GetOperation(method)
	if err := d.answered(at, op, x); err != nil {
		return fmt.Errorf("%s %s, %d: %w", x.req.Method, pattern, x.resp.StatusCode, err)
	}
	if x.resp.StatusCode < 300 {
		if err := d.asked(at, op, x); err != nil {
			return fmt.Errorf("%s %s was taken: %w", x.req.Method, pattern, err)
		}
	}
	return nil
}

// answered checks status, headers, media type and body.
func (d *described) answered(at string, op *openapi3.Operation, x exchange) error {
	status := strconv.Itoa(x.resp.StatusCode)
	answer := op.Responses.Value(status)
	if answer == nil {
		return fmt.Errorf("the status is not described: give it to the route: %.300s", x.answer)
	}
	for _, name := range []string{"X-Should-Retry", "Retry-After", "ETag", "Allow"} {
		if x.resp.Header.Get(name) != "" && answer.Value.Headers[name] == nil {
			return fmt.Errorf("the header %s is not described", name)
		}
	}
	if x.req.Method == http.MethodHead || len(x.answer) == 0 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(x.resp.Header.Get("Content-Type"))
	if err != nil || answer.Value.Content[kind] == nil {
		return fmt.Errorf("the media type %q is not described (%v)", kind, err)
	}
	pointer := at + "/responses/" + status
	if answer.Ref != "" {
		pointer = strings.TrimPrefix(answer.Ref, "#")
	}
	pointer += "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema"
	data := x.answer
	switch kind {
	case "text/plain":
		if data, err = json.Marshal(string(x.answer)); err != nil {
			return err
		}
		return d.schemas.At(pointer, data)
	case "application/json":
		return d.schemas.At(pointer, data)
	case stream.TypeSSE:
		data = lines(data)
	}
	for line := range bytes.Lines(data) {
		if err := d.schemas.At(pointer, line); err != nil {
			return err
		}
	}
	return nil
}

// asked checks a request that was taken: body and query.
func (d *described) asked(at string, op *openapi3.Operation, x exchange) error {
	if op.RequestBody != nil && len(x.sent) > 0 {
		if err := d.schemas.At(at+"/requestBody/content/application~1json/schema", x.sent); err != nil {
			return err
		}
	}
	for name, values := range x.req.URL.Query() {
		// said in words, and one that no server has
		if slices.Contains([]string{"include", "include[]", "include_obfuscation", "colour"}, name) {
			continue
		}
		i := slices.IndexFunc(op.Parameters, func(p *openapi3.ParameterRef) bool {
			return p.Value.In == "query" && p.Value.Name == name
		})
		if i < 0 {
			return fmt.Errorf("the parameter %s is not described", name)
		}
		data, err := json.Marshal(values[0])
		if op.Parameters[i].Value.Schema.Value.Type.Is("integer") {
			data = []byte(values[0])
		}
		if err := errors.Join(err, d.schemas.At(at+"/parameters/"+strconv.Itoa(i)+"/schema", data)); err != nil {
			return fmt.Errorf("the parameter %s: %w", name, err)
		}
	}
	return nil
}

// sentBy returns what a request sends.
func sentBy(req *http.Request) []byte {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	data, _ := io.ReadAll(body) // a reader of memory
	return data
}

// The check must be able to fail.
func TestTrafficIsChecked(t *testing.T) {
	t.Parallel()
	d, err := ours()
	expect.NoError(t, err)
	exchanged := func(method, target, sent string, status int, kind, answer string, header ...string) exchange {
		u, err := url.Parse(target)
		expect.NoError(t, err)
		h := http.Header{"Content-Type": {kind}, "X-Request-Id": {"req_1"}}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return exchange{&http.Request{Method: method, URL: u}, &http.Response{StatusCode: status, Header: h},
			[]byte(sent), []byte(answer)}
	}
	const health = `{"status":"ready","version":"","engine":"agentd","models":[],"skills":[],"active_turns":0,` +
		`"queued_turns":0,"instance":"i","runtime_id":"rt_1","mcp":[],"programs":["sh"]}`
	expect.NoError(t, d.check(exchanged("GET", "/v1/health", "", 200, "application/json", health)))
	for what, x := range map[string]exchange{
		"status":     exchanged("GET", "/health", "", 202, "application/json", health),
		"body":       exchanged("GET", "/health", "", 200, "application/json", `{"status":"ready"}`),
		"media type": exchanged("GET", "/health", "", 200, "text/plain", health),
		"header":     exchanged("GET", "/health", "", 200, "application/json", health, "Retry-After", "1"),
		"path":       exchanged("GET", "/healthy", "", 200, "application/json", health),
		"event":      exchanged("POST", "/responses", `{}`, 200, stream.TypeNDJSON, `{"type":"response.created"}`+"\n"),
		"line":       exchanged("GET", "/turns/a/events", "", 200, stream.TypeNDJSON, `{"seq":1,"runtime":{"type":"x"}}`+"\n"),
		"request": exchanged("POST", "/responses/input_tokens", `{"input":7}`, 200, "application/json",
			`{"object":"response.input_tokens","input_tokens":1}`),
		"parameter": exchanged("GET", "/tasks?limited=1", "", 200, "application/json", `{"tasks":[]}`),
		"bound":     exchanged("GET", "/tasks?limit=0", "", 200, "application/json", `{"tasks":[]}`),
		"error":     exchanged("GET", "/turns/a", "", 404, "application/json", `{"error":{"message":"m"}}`),
	} {
		if d.check(x) == nil {
			t.Errorf("what is wrong with the %s was not noticed", what)
		}
	}
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	h := start(t)
	first := h.do(http.MethodGet, "/openapi.json", "")
	tag := first.header.Get("ETag")
	if first.status != http.StatusOK || first.header.Get("Content-Type") != "application/json" || tag == "" ||
		first.header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("%d %.300s, %+v", first.status, first.body, tag)
	}
	doc, err := openapi3.NewLoader().LoadFromData(first.body)
	expect.NoError(t, err)
	expect.NoError(t, doc.Validate(t.Context()))
	if again := h.do(http.MethodGet, "/v1/openapi.json", "", "If-None-Match",
		`"other"`); again.status != http.StatusOK || !bytes.Equal(again.body, first.body) {
		t.Errorf("under /v1: %d, %d bytes", again.status, len(again.body))
	}
	for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		a := h.do(http.MethodGet, "/openapi.json", "", "If-None-Match", known)
		if a.status != http.StatusNotModified || len(a.body) != 0 || a.header.Get("ETag") != tag {
			t.Errorf("%.120q: %d %.300s, %+v", known, a.status, a.body, tag)
		}
	}
	if a := h.do(http.MethodHead, "/openapi.json", ""); a.status != http.StatusOK || a.header.Get("ETag") != tag ||
		len(a.body) != 0 {
		t.Errorf("HEAD: %d %.300s, %+v", a.status, a.body, tag)
	}
}
