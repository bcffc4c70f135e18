package control

import (
	"context"
	"fmt"
	"net/http"
	"strings"

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

// sums are what the ledger knows.
func (s *Server) sums(ctx context.Context) ([]byte, error) {
	var agents, stopped, queued, open int
	var messages, turns, events, rounds, in, out int64
	err := s.store.View(ctx, func(v ledger.View) error {
		all, err := v.Agents()
		if err != nil {
			return err
		}
		agents = len(all)
		for _, a := range all {
			lane, err := v.Lane(a.ID)
			if err != nil {
				return err
			}
			n, err := v.CountQueued(a.ID)
			if err != nil {
				return err
			}
			if lane.Stopped {
				stopped++
			}
			queued += n
			messages, turns, events = messages+lane.Admitted, turns+lane.Turns, events+lane.EventSeq
			rounds, in, out = rounds+lane.Totals.ModelRounds, in+lane.Totals.InputTokens, out+lane.Totals.OutputTokens
		}
		attempts, err := v.OpenAttempts()
		open = len(attempts)
		return err
	})
	var b strings.Builder
	gauge(&b, "holon_agents", "Agents that are not archived.", agents)
	gauge(&b, "holon_agents_stopped", "Of them, those that are stopped.", stopped)
	gauge(&b, "holon_queue_messages", "Messages that wait in queues.", queued)
	gauge(&b, "holon_turns_running", "Open attempts.", open)
	counter(&b, "holon_messages_total", "Messages that were admitted.", messages)
	counter(&b, "holon_turns_total", "Turns that were begun.", turns)
	counter(&b, "holon_events_total", "Events that were recorded.", events)
	counter(&b, "holon_model_rounds_total", "Rounds of models.", rounds)
	counter(&b, "holon_input_tokens_total", "Tokens that models read.", in)
	counter(&b, "holon_output_tokens_total", "Tokens that models wrote.", out)
	return []byte(b.String()), err
}

// seen is what this server has seen since it began.
func (s *Server) seen() string {
	var b strings.Builder
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
