package agentd

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
)

// metrics counts what happened since the process started. The text format is
// written here: it is a few lines, and Prometheus' client library would bring
// protocol buffers into every container.
type metrics struct {
	mu            sync.Mutex
	turns         map[responses.Status]int64
	input, output int64 // tokens
	calls         map[toolStatus]int64
	names         map[string]bool // of tools in calls
}

// toolStatus is what finished calls of tools are counted by.
type toolStatus struct{ tool, status string }

// Names of tools come from servers of tools and from models. A bounded number is
// counted under names of their own, and only names of tools that exist; the rest
// is otherTool.
const (
	maxToolNames = 200
	otherTool    = "other"
)

func newMetrics() *metrics {
	return &metrics{calls: make(map[toolStatus]int64), names: make(map[string]bool),
		turns: map[responses.Status]int64{responses.StatusCompleted: 0, responses.StatusFailed: 0,
			responses.StatusIncomplete: 0, responses.StatusCancelled: 0}}
}

// turnEnded counts a turn that is over.
func (m *metrics) turnEnded(status responses.Status, usage *responses.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns[status]++
	if usage != nil {
		m.input, m.output = m.input+usage.InputTokens, m.output+usage.OutputTokens
	}
}

// toolEnded counts a call of a tool that ran, or does not exist.
func (m *metrics) toolEnded(name string, outcome tools.Outcome) {
	status := "success"
	if failed := outcome.Canonical.Error; failed != nil {
		status = "error"
		if failed.Kind == tools.KindUnknownTool {
			name = otherTool
		}
	}
	name = strings.ToValidUTF8(name, "\uFFFD") // as a label must be
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.names[name] && len(m.names) >= maxToolNames {
		name = otherTool
	}
	m.names[name] = true // at most maxToolNames and otherTool
	m.calls[toolStatus{name, status}]++
}

// getMetrics is GET /metrics. It reads no disk and starts nothing.
func (s *Server) getMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	active, queued := s.queue.Load()
	// A client that is gone needs nothing.
	_, _ = io.WriteString(w, s.metrics.text(active, queued, s.store.StoredBytes()))
}

// text is the metrics in Prometheus' text format, with gauges that others know.
func (m *metrics) text(active, queued int, stored int64) string {
	var b strings.Builder
	family := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind) }
	m.mu.Lock()
	defer m.mu.Unlock()
	family("agentd_turns_total", "counter", "Turns that ended since agentd started, by status.")
	for _, status := range slices.Sorted(maps.Keys(m.turns)) {
		fmt.Fprintf(&b, "agentd_turns_total{status=\"%s\"} %d\n", status, m.turns[status])
	}
	family("agentd_turns_active", "gauge", "Turns that run.")
	fmt.Fprintf(&b, "agentd_turns_active %d\n", active)
	family("agentd_turns_queued", "gauge", "Turns that wait to run.")
	fmt.Fprintf(&b, "agentd_turns_queued %d\n", queued)
	family("agentd_tokens_total", "counter", "Tokens that models took and gave in turns that ended.")
	fmt.Fprintf(&b, "agentd_tokens_total{direction=\"input\"} %d\n"+
		"agentd_tokens_total{direction=\"output\"} %d\n", m.input, m.output)
	family("agentd_tool_calls_total", "counter", "Calls of the container's tools that ended, by tool and status.")
	order := func(a, b toolStatus) int { return cmp.Or(cmp.Compare(a.tool, b.tool), cmp.Compare(a.status, b.status)) }
	for _, at := range slices.SortedFunc(maps.Keys(m.calls), order) {
		fmt.Fprintf(&b, "agentd_tool_calls_total{tool=\"%s\",status=\"%s\"} %d\n", label(at.tool), at.status,
			m.calls[at])
	}
	family("agentd_stored_bytes", "gauge", "Bytes of stored responses, as far as they are known.")
	fmt.Fprintf(&b, "agentd_stored_bytes %d\n", stored)
	return b.String()
}

// label escapes the value of a label.
func label(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, http.StatusOK, s.Health())
}

// Health tells what state the server is in, without asking a model or a disk.
func (s *Server) Health() turns.Health {
	h := turns.Health{Status: turns.HealthReady, Version: s.parts.Version, Engine: turns.EngineAgentd,
		Models: s.parts.Models.Models(), Instance: s.instance, RuntimeID: s.store.RuntimeID(),
		Skills: s.enabled, MCP: s.parts.MCP.Health(), Programs: s.programs, Versions: s.versions}
	h.ActiveTurns, h.QueuedTurns = s.queue.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		h.Status = turns.HealthDraining
	}
	return h
}

// stopping is the answer of POST /shutdown.
type stopping struct {
	Status  string `json:"status"`
	Running int    `json:"active_turns"`
	Queued  int    `json:"queued_turns"`
}

func (s *Server) postShutdown(w http.ResponseWriter, _ *http.Request) {
	running, queued := s.queue.Load()
	s.writeJSON(w, http.StatusAccepted, stopping{turns.HealthDraining, running, queued})
	s.Shutdown()
}
