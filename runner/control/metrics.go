package control

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"

	"holon/state"
	"holon/state/ledger"
)

// getMetrics is GET /metrics. The numbers are sums over all agents and name
// none, so that no id and no capability gets into a collection of metrics.
func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) {
	body, _, err := s.gate.do(r.Context(), "metrics", 0, func(ctx context.Context) ([]byte, int64, error) {
		sums, err := s.sums(ctx)
		return sums, 0, err
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.send(w, http.StatusOK, append(body[:len(body):len(body)], s.seen()...))
}

// totals are sums over all agents.
type totals struct {
	agents, stopped, queued, open                  int
	messages, turns, events, rounds, input, output int64
}

// sums are what the ledger knows.
func (s *Server) sums(ctx context.Context) ([]byte, error) {
	var sum totals
	err := s.store.View(ctx, func(v ledger.View) error {
		agents, err := v.Agents()
		if err != nil {
			return err
		}
		sum = totals{agents: len(agents)}
		for _, a := range agents {
			// the others can be read
			if err := sum.add(v, a.ID); err != nil && !state.IsCode(err, ledger.CodeUnreadable) {
				return err
			}
		}
		attempts, err := v.OpenAttempts()
		sum.open = len(attempts)
		return err
	})
	return sum.text(), err
}

func (t *totals) add(v ledger.View, agentID string) error {
	stored, err := v.AgentState(agentID)
	if err != nil {
		return err
	}
	if stored.Stopped {
		t.stopped++
	}
	t.messages, t.turns, t.events = t.messages+stored.Admitted, t.turns+stored.Turns, t.events+stored.EventSeq
	t.rounds, t.input, t.output = t.rounds+stored.Totals.ModelRounds, t.input+stored.Totals.InputTokens,
		t.output+stored.Totals.OutputTokens
	queued, err := v.CountQueued(agentID)
	t.queued += queued
	return err
}

func (t *totals) text() []byte {
	var b strings.Builder
	gauge(&b, "holon_agents", "Agents that are not archived.", t.agents)
	gauge(&b, "holon_agents_stopped", "Of them, those that are stopped.", t.stopped)
	gauge(&b, "holon_queue_messages", "Messages that wait in queues.", t.queued)
	gauge(&b, "holon_turns_running", "Open attempts.", t.open)
	counter(&b, "holon_messages_total", "Messages that were admitted.", t.messages)
	counter(&b, "holon_turns_total", "Turns that were begun.", t.turns)
	counter(&b, "holon_events_total", "Events that were recorded.", t.events)
	counter(&b, "holon_model_rounds_total", "Rounds of models.", t.rounds)
	counter(&b, "holon_input_tokens_total", "Tokens that models read.", t.input)
	counter(&b, "holon_output_tokens_total", "Tokens that models wrote.", t.output)
	return []byte(b.String())
}

// seen is what this server has seen since it began.
func (s *Server) seen() string {
	var b strings.Builder
	gauge(&b, "go_goroutines", "Goroutines of the process.", runtime.NumGoroutine())
	gauge(&b, "holon_event_streams", "Event streams that are open.", len(s.streams))
	counter(&b, "holon_event_streams_cut_total", "Streams whose readers were too slow.", s.counts.cut.Load())
	counter(&b, "holon_snapshots_shared_total", "Snapshots that were answered from another's.", s.counts.shared.Load())
	counter(&b, "holon_requests_deferred_total", "Requests that were sent away for a time.", s.counts.busy.Load())
	fmt.Fprintf(&b, "# HELP holon_requests_total Answers by class of status.\n# TYPE holon_requests_total counter\n")
	for class := 1; class <= 5; class++ {
		fmt.Fprintf(&b, "holon_requests_total{class=\"%dxx\"} %d\n", class, s.counts.answers[class].Load())
	}
	return b.String()
}

func gauge(b *strings.Builder, name, help string, value int) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s gauge\n%s %d\n", name, help, name, name, value)
}

func counter(b *strings.Builder, name, help string, value int64) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s counter\n%s %d\n", name, help, name, name, value)
}
