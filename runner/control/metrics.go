package control

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"holon/state"
	"holon/state/ledger"
)

// getMetrics is GET /metrics, in the text format. The numbers are sums over all
// agents and name none, so that no id and no capability reaches a monitoring system.
func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) {
	text, err := s.metrics(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	s.send(w, http.StatusOK, text)
}

// metrics gathers the metrics in a registry of its own: the sums were read before,
// so that a busy server can refuse the request.
func (s *Server) metrics(ctx context.Context) ([]byte, error) {
	sum, err := s.totals(ctx)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector{sum, s}); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	families, err := registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return nil, fmt.Errorf("encode metrics: %w", err)
		}
	}
	return text.Bytes(), nil
}

// totals are sums over all agents.
type totals struct {
	agents, stopped, queued, open                  int
	messages, turns, events, rounds, input, output int64
}

// totals reads the sums from the ledger.
func (s *Server) totals(ctx context.Context) (totals, error) {
	release, err := s.limit.enter(ctx)
	if err != nil {
		return totals{}, err
	}
	defer release()
	var sum totals
	err = s.store.View(ctx, func(v ledger.View) error {
		agents, err := v.Agents()
		if err != nil {
			return err
		}
		sum = totals{agents: len(agents)}
		for _, a := range agents {
			// an unreadable agent does not hide the others
			if err := sum.add(v, a.ID); err != nil && !state.IsCode(err, ledger.CodeUnreadable) {
				return err
			}
		}
		attempts, err := v.OpenAttempts()
		sum.open = len(attempts)
		return err
	})
	return sum, err
}

func (t *totals) add(v ledger.View, agentID string) error {
	stored, err := v.AgentState(agentID)
	if err != nil {
		return err
	}
	if stored.Stopped {
		t.stopped++
	}
	t.messages += stored.Admitted
	t.turns += stored.Turns
	t.events += stored.EventSeq
	t.rounds += stored.Totals.ModelRounds
	t.input += stored.Totals.InputTokens
	t.output += stored.Totals.OutputTokens
	queued, err := v.CountQueued(agentID)
	t.queued += queued
	return err
}

// collector implements prometheus.Collector with the sums of the ledger and the counts of the server.
type collector struct {
	totals
	server *Server
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	add := func(kind prometheus.ValueType, name, help string, value int64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, float64(value))
	}
	gauge := func(name, help string, value int) { add(prometheus.GaugeValue, name, help, int64(value)) }
	counter := func(name, help string, value int64) { add(prometheus.CounterValue, name, help, value) }
	gauge("holon_agents", "Agents that are not archived.", c.agents)
	gauge("holon_agents_stopped", "Of them, those that are stopped.", c.stopped)
	gauge("holon_queue_messages", "Messages that wait in queues.", c.queued)
	gauge("holon_turns_running", "Open attempts.", c.open)
	counter("holon_messages_total", "Messages that were admitted.", c.messages)
	counter("holon_turns_total", "Turns that were begun.", c.turns)
	counter("holon_events_total", "Events that were recorded.", c.events)
	counter("holon_model_rounds_total", "Rounds of models.", c.rounds)
	counter("holon_input_tokens_total", "Tokens that models read.", c.input)
	counter("holon_output_tokens_total", "Tokens that models wrote.", c.output)
	gauge("go_goroutines", "Goroutines of the process.", runtime.NumGoroutine())
	gauge("holon_event_streams", "Event streams that are open.", len(c.server.streams))
	counts := &c.server.counts
	counter("holon_event_streams_cut_total", "Streams whose readers were too slow.", counts.cut.Load())
	counter("holon_requests_deferred_total", "Requests that were sent away for a time.", counts.busy.Load())
	answers := prometheus.NewDesc("holon_requests_total", "Answers by class of status.", []string{"class"}, nil)
	for class := 1; class <= 5; class++ {
		ch <- prometheus.MustNewConstMetric(answers, prometheus.CounterValue,
			float64(counts.answers[class].Load()), fmt.Sprintf("%dxx", class))
	}
}
