package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/test/expect"
)

// still is a host that has nothing but its name.
type still struct{ Host }

type stillClients struct{}

func (stillClients) ServeHTTP(http.ResponseWriter, *http.Request) {}
func (stillClients) Close()                                       {}

func (still) Info() view.RuntimeInfo {
	return view.RuntimeInfo{Version: "test"}
}

var _ Steps = (*scheduler.Scheduler)(nil)

func document(t *testing.T) *openapi3.T {
	t.Helper()
	text, err := New(Options{Host: still{}}).getOpenAPI(nil, nil)
	expect.NoError(t, err)
	data, _ := text.([]byte)
	doc, err := openapi3.NewLoader().LoadFromData(data)
	expect.NoError(t, err)
	return doc
}

func TestTheDocumentIsValid(t *testing.T) {
	t.Parallel()
	doc := document(t)
	expect.NoError(t, doc.Validate(t.Context()))
	expect.Equal(t, "version", doc.Info.Version, (still{}).Info().Version)
}

// The handler has the routes that the document describes, and no others.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	var have, want []string
	err := chi.Walk(New(Options{Host: still{}}).handler(listener{local: true}).(chi.Routes),
		func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			if method != http.MethodHead { // that is GET without its body
				have = append(have, method+" "+strings.Replace(path, "/files/*", "/files/{path}", 1))
			}
			return nil
		})
	expect.NoError(t, err)
	ids := make(map[string]string)
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			want = append(want, at)
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s is described by %+v, want an id, a summary and one tag", at, op)
			}
			if other := ids[op.OperationID]; other != "" {
				t.Errorf("%s and %s have the same id %s", at, other, op.OperationID)
			}
			ids[op.OperationID] = at
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the routes are\n%s\nwant those that the document describes:\n%s", strings.Join(have, "\n"),
			strings.Join(want, "\n"))
	}
}

// Every route of version 0.14 that belongs here exists.
func TestTheSurface(t *testing.T) {
	t.Parallel()
	have := make(map[string]bool)
	for _, r := range New(Options{Host: still{}}).routes() {
		have[r.method+" "+r.path] = true
	}
	for _, want := range strings.Fields(
		`GET/ GET/handshake GET/models GET/agents/list GET/agents/{id}/status GET/agents/{id}/state ` +
			`GET/agents/{id}/briefs
		GET/agents/{id}/transcript GET/agents/{id}/timers GET/agents/{id}/events GET/agents/{id}/events/stream ` +
			`POST/agents/{id}/enqueue POST/enqueue
		POST/control/agents/{id}/prompt POST/control/agents/{id}/wake POST/control/agents/{id}/control ` +
			`POST/control/agents/{id}/current-run/abort
		POST/control/agents/{id}/create POST/control/agents/{id}/timers DELETE/control/agents/{id}/timers/{timer_id} ` +
			`POST/control/agents/{id}/model
		POST/control/agents/{id}/model/clear POST/control/agents/{id}/debug-prompt POST/control/agents/{id}/trigger ` +
			`POST/control/agents/{id}/trigger/rotate
		POST/control/agents/{id}/trigger/revoke POST/control/agents/{id}/image POST/callbacks/enqueue/{token} ` +
			`POST/callbacks/wake/{token} POST/webhooks/generic/{id}
		GET/control/runtime/readiness GET/control/runtime/status POST/control/runtime/shutdown GET/status GET/briefs ` +
			`GET/state GET/transcript GET/openapi.json GET/metrics`) {
		if method, path, _ := strings.Cut(want, "/"); !have[method+" /"+path] {
			t.Errorf("there is no %s /%s", method, path)
		}
	}
}

// A parameter that a path does not have, or that has no value, is refused before anything is done. A path reads the
// query if and only if the document says that it has parameters.
func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	doc := document(t)
	s := New(Options{Host: still{}})
	handler := s.handler(listener{local: true})
	for _, one := range s.routes() {
		described := slices.ContainsFunc(doc.Paths.Find(one.path).GetOperation(one.method).Parameters,
			func(p *openapi3.ParameterRef) bool { return p.Value.In == "query" })
		expect.Equal(t, fmt.Sprintf("%s %s reads the query", one.method, one.path), one.queries, described)
		path := strings.NewReplacer("{", "", "}", "").Replace(one.path)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), one.method, path+"?colour=red", nil))
		if !one.capability &&
			(answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), `"param":"colour"`)) {
			t.Errorf("%s %s with ?colour=red is answered %d %s", one.method, path, answer.Code, answer.Body)
		}
		for _, p := range doc.Paths.Find(one.path).GetOperation(one.method).Parameters {
			if p.Value.In != "query" || p.Value.Name == "query" { // an empty search is refused by the memory: TestMemory
				continue
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer,
				httptest.NewRequestWithContext(t.Context(), one.method, path+"?"+p.Value.Name+"=", nil))
			if answer.Code != http.StatusBadRequest ||
				!strings.Contains(answer.Body.String(), `"param":"`+p.Value.Name+`"`) {
				t.Errorf("%s %s with an empty %s is answered %d %s", one.method, path, p.Value.Name, answer.Code,
					answer.Body)
			}
		}
	}
}

// A body is refused by the routes that take none, before anything is done. A route takes a body if and only if the
// document describes one.
func TestUnknownBodiesAreRefused(t *testing.T) {
	t.Parallel()
	doc := document(t)
	s := New(Options{Host: still{}})
	handler := s.handler(listener{local: true})
	for _, one := range s.routes() {
		described := doc.Paths.Find(one.path).GetOperation(one.method).RequestBody != nil
		expect.Equal(t, fmt.Sprintf("%s %s takes a body", one.method, one.path), one.take != nil, described)
		if described {
			continue
		}
		for name, size := range map[string]int64{"a body": 2, "a body in chunks": -1} {
			path := strings.NewReplacer("{", "", "}", "").Replace(one.path)
			r := httptest.NewRequestWithContext(t.Context(), one.method, path, strings.NewReader("{}"))
			r.ContentLength = size
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			var f wire.Failure
			expect.NoError(t, json.Unmarshal(answer.Body.Bytes(), &f))
			want := wire.FailureInfo{Code: wire.CodeInvalidValue, Param: "body",
				Message: one.method + " " + one.path + " takes no body", Hint: "send the request without a body"}
			if answer.Code != http.StatusBadRequest || f.Error != want {
				t.Errorf("%s %s with %s is answered %d %s", one.method, path, name, answer.Code, answer.Body)
			}
		}
	}
}

// deadlines keeps the last deadlines that an answer got.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// A stream below /v1/ may last as long as its turn.
func TestClientsHaveNoDeadline(t *testing.T) {
	t.Parallel()
	for path, bounded := range map[string]bool{"/v1/responses": false, "/status": true} {
		s := New(Options{Host: still{}, Clients: stillClients{}})
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		s.handler(listener{local: true}).ServeHTTP(w,
			httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("{}")))
		if w.read.IsZero() == bounded || w.write.IsZero() == bounded {
			t.Errorf("POST %s has the deadlines %v and %v", path, w.read, w.write)
		}
	}
}
