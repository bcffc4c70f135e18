package agentd

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"holon/agentd/config"
)

func describedServer(t *testing.T) *Server {
	t.Helper()
	s := &Server{cfg: config.Default(), parts: Parts{Version: "test"}}
	return s
}

// The handler has the routes that the document describes, and no others.
func TestEveryRouteIsDescribed(t *testing.T) {
	s := describedServer(t)
	doc, err := s.document()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	err = chi.Walk(s.Handler().(chi.Routes),
		func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			path = strings.Replace(path, "*", "{id}", 1)
			op := doc.Paths[path][strings.ToLower(method)]
			if op == nil {
				t.Errorf("%s %s is not described: put the route, with its description, into the table of its resource "+
					"(func (*Server) …Routes, routes.go)", method, path)
				return nil
			}
			seen[method+" "+path] = true
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]string)
	for path, methods := range doc.Paths {
		for method, op := range methods {
			at := strings.ToUpper(method) + " " + path
			if !seen[at] {
				t.Errorf("%s is described and does not exist", at)
			}
			if op.ID == "" || op.Summary == "" || len(op.Tags) != 1 || op.Tags[0] == "" {
				t.Errorf("%s: give it an id, a tag and a summary: %+v", at, op)
			}
			if ids[op.ID] != "" {
				t.Errorf("%s and %s have the same id %s", at, ids[op.ID], op.ID)
			}
			ids[op.ID] = at
		}
	}
}

// A tool that knows nothing of us can read the document.
func TestTheDocumentIsValid(t *testing.T) {
	s := describedServer(t)
	d, err := s.description()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(d.text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var again any
	if err := json.Unmarshal(d.text, &again); err != nil {
		t.Fatal(err)
	}
	for range 20 { // maps have no order
		if other, err := s.description(); err != nil || other.tag != d.tag {
			t.Fatalf("made twice, the document has the tags %s and %s (%v)", d.tag, other.tag, err)
		}
	}
	t.Logf("%d bytes", len(d.text))
}

func BenchmarkDescription(b *testing.B) {
	s := &Server{cfg: config.Default()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.description(); err != nil {
			b.Fatal(err)
		}
	}
}
