package control

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// still is a host that has nothing but its name.
type still struct{}

func (still) CreateAgent(context.Context, string, string) (ledger.Agent, error) {
	return ledger.Agent{}, nil
}
func (still) Prompt(context.Context, string, string) (json.RawMessage, error) { return nil, nil }
func (still) Models(context.Context) (view.Models, error)                     { return view.Models{}, nil }
func (still) Info() view.RuntimeInfo {
	return view.RuntimeInfo{Version: "test"}
}
func (still) Shutdown() {}

var _ Steps = (*scheduler.Scheduler)(nil)

// The handler has the routes that the document describes, and no others.
func TestEveryRouteIsDescribed(t *testing.T) {
	s := New(Options{Host: still{}})
	text, err := s.document()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			ID      string   `json:"operationId"`
			Summary string   `json:"summary"`
			Tags    []string `json:"tags"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	err = chi.Walk(s.handler(listener{local: true}).(chi.Routes),
		func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			if _, ok := doc.Paths[path][strings.ToLower(method)]; !ok {
				t.Errorf("%s %s is not described", method, path)
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
			if op.ID == "" || op.Summary == "" || len(op.Tags) != 1 || ids[op.ID] != "" {
				t.Errorf("%s: give it an id of its own, a tag and a summary: %+v", at, op)
			}
			ids[op.ID] = at
		}
	}
	again, err := New(Options{Host: still{}}).document()
	if err != nil || string(again) != string(text) {
		t.Errorf("made twice, the document differs (%v)", err)
	}
}

// Every route of version 0.14 that belongs here exists.
func TestTheSurface(t *testing.T) {
	have := make(map[string]bool)
	for _, r := range New(Options{Host: still{}}).routes() {
		have[r.method+" "+r.path] = true
	}
	for _, want := range strings.Fields(
		`GET/ GET/handshake GET/models GET/agents/list GET/agents/{id}/status GET/agents/{id}/state GET/agents/{id}/briefs
		GET/agents/{id}/transcript GET/agents/{id}/timers GET/agents/{id}/events GET/agents/{id}/events/stream POST/agents/{id}/enqueue POST/enqueue
		POST/control/agents/{id}/prompt POST/control/agents/{id}/wake POST/control/agents/{id}/control POST/control/agents/{id}/current-run/abort
		POST/control/agents/{id}/create POST/control/agents/{id}/timers DELETE/control/agents/{id}/timers/{timer_id} POST/control/agents/{id}/model
		POST/control/agents/{id}/model/clear POST/control/agents/{id}/debug-prompt POST/control/agents/{id}/trigger POST/control/agents/{id}/trigger/rotate
		POST/control/agents/{id}/trigger/revoke POST/control/agents/{id}/image POST/callbacks/enqueue/{token} POST/callbacks/wake/{token} POST/webhooks/generic/{id}
		GET/control/runtime/readiness GET/control/runtime/status POST/control/runtime/shutdown GET/status GET/briefs GET/state GET/transcript GET/openapi.json GET/metrics`) {
		if method, path, _ := strings.Cut(want, "/"); !have[method+" /"+path] {
			t.Errorf("there is no %s /%s", method, path)
		}
	}
}
