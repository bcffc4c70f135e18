package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/telemetry"
	"holon/test/expect"
	"holon/test/telemetrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns an exporter to the collector at url, and what it logs. The test closes it.
func open(t *testing.T, url string, change func(*telemetry.Options)) (*telemetry.Exporter, *strings.Builder) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	log := new(strings.Builder)
	o := telemetry.Options{Traces: true, Metrics: true, Version: "v1", Log: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&o)
	}
	e, err := telemetry.Open(t.Context(), o)
	expect.NoError(t, err)
	return e, log
}

// collected returns an exporter and the collector that it sends to, which ends with the test. The test closes the exporter.
func collected(t *testing.T, change func(*telemetry.Options)) (*telemetry.Exporter, *telemetrytest.Collector) {
	t.Helper()
	c := telemetrytest.Start(nil)
	t.Cleanup(c.Close)
	e, _ := open(t, c.URL, change)
	return e, c
}

// trace sends a turn with these facts.
func trace(t *testing.T, e *telemetry.Exporter, in telemetry.Invocation, list []turns.RuntimeEvent,
	final *responses.Response, how telemetry.Ending) {
	t.Helper()
	turn := e.Begin(t.Context(), in)
	for _, ev := range list {
		turn.Fact(ev)
	}
	turn.End(t.Context(), final, how)
}

// facts are those of a turn with two model requests and a tool call, which agentd makes; step is the time between two.
func facts(step time.Duration) []turns.RuntimeEvent {
	now := time.Now()
	s := turns.Scope{RuntimeID: "inst_1", SessionID: "sess_1", TurnID: "turn_1", Now: func() time.Time {
		now = now.Add(step)
		return now
	}}
	usage := responses.Usage{InputTokens: 100, OutputTokens: 7, TotalTokens: 107,
		InputTokenDetails: responses.InputTokenDetails{CachedTokens: 60}}
	asked := turns.Requested{ProviderName: "openai", ModelName: "gpt", Attempt: 1, MaxAttempts: 3, Round: 1}
	return []turns.RuntimeEvent{
		s.TurnSubmitted(turns.Submitted{ResponseID: "resp_1"}, false),
		s.Event(turns.TurnStarted, turns.Started{QueueWaitMS: 5, Model: "openai/gpt"}),
		s.OfRequest(turns.ModelRequested, "mreq_1", asked),
		s.OfRequest(turns.ModelFailed, "mreq_1", turns.AttemptFailure{FailureCategory: "overloaded", Message: "SECRET prompt",
			HTTPStatus: 503}),
		s.OfRequest(turns.ModelRequested, "mreq_2", asked),
		s.OfRequest(turns.ModelCompleted, "mreq_2", turns.Sampled{Usage: turns.UsageOf(usage), StopReason: "tool_calls",
			NativeRequestID: "r-1"}),
		s.ToolStarted("tool_1", turns.Begun{ToolName: "ExecCommand", CallID: "call_1", Arguments: "SECRET argument"}),
		s.OfCall(turns.ToolFailed, "tool_1", turns.ToolFailure{ToolName: "ExecCommand", FailureCategory: "timeout",
			Message: "SECRET message", Preview: "SECRET result"}),
		s.Event(turns.TurnCompleted, turns.Completed{ResponseID: "resp_1", Rounds: 1, ToolCalls: 1,
			Usage: turns.UsageOf(usage)}),
	}
}

var invocation = telemetry.Invocation{TurnID: "turn_1", SessionID: "sess_1", AgentID: "main",
	Models: []string{"openai/gpt"}, Prompt: "SECRET prompt"}

func answered() *responses.Response {
	r := responses.NewResponse("resp_1", "openai/gpt", 1, &responses.Request{})
	r.Status = responses.StatusCompleted
	r.Output = []responses.Item{&responses.Message{Role: responses.RoleAssistant,
		Content: []responses.Part{{Type: responses.PartOutputText, Text: "SECRET answer"}}}}
	return &r
}

// A turn is reported as one trace, with the attributes of the conventions and without a word of its content.
func TestTrace(t *testing.T) {
	e, c := collected(t, nil)
	trace(t, e, invocation, facts(0), answered(), telemetry.Ending{})
	expect.NoError(t, e.Close())
	const above = "invoke_agent main > turn > "
	got := telemetrytest.Tree(c.Spans())
	slices.Sort(got)
	want := []string{"invoke_agent main", "invoke_agent main > turn", above + "chat gpt", above + "chat gpt",
		above + "execute_tool ExecCommand"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the spans differ (-want +got):\n%s", diff)
	}
	if c.Has("SECRET") {
		t.Error("there is content in the telemetry")
	}
	if c.Service() != "holon" || e.Lost() != 0 {
		t.Errorf("service %q, %d lost", c.Service(), e.Lost())
	}
	root := tracecontext.Root("turn_1").Child("turn_1")
	for id, want := range map[string]string{
		"mreq_1": "error.type=overloaded http.response.status_code=int_value:503 holon.attempt=int_value:1",
		"mreq_2": "gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=gpt " +
			"gen_ai.response.model= gen_ai.response.id= holon.native_request_id=r-1 gen_ai.usage.input_tokens=int_value:100 " +
			"gen_ai.usage.output_tokens=int_value:7 gen_ai.usage.cache_read.input_tokens=int_value:60 " +
			"gen_ai.conversation.id=sess_1 error.type=",
		"tool_1": "gen_ai.operation.name=execute_tool gen_ai.tool.name=ExecCommand gen_ai.tool.call.id=call_1 " +
			"error.type=timeout",
	} {
		for _, s := range c.Spans() {
			if fmt.Sprintf("%x", s.SpanId) != root.Child(id).SpanID() {
				continue
			}
			for pair := range strings.FieldsSeq(want) {
				key, value, _ := strings.Cut(pair, "=")
				if got := telemetrytest.Attribute(s, key); got != value {
					t.Errorf("%s: %s is %q, want %q", id, key, got, value)
				}
			}
			want = ""
		}
		if want != "" {
			t.Errorf("there is no span with the id that %s has in facts", id)
		}
	}
	for _, name := range []string{"gen_ai.client.token.usage", "gen_ai.client.operation.duration", "holon.turns"} {
		if c.Metric(name) == nil {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// Content is there when it is asked for.
func TestContent(t *testing.T) {
	e, c := collected(t, func(o *telemetry.Options) { o.Content = true })
	trace(t, e, invocation, facts(0), answered(), telemetry.Ending{})
	_ = e.Close()
	for _, text := range []string{"SECRET prompt", "SECRET answer", "SECRET argument", "SECRET result"} {
		if !c.Has(text) {
			t.Errorf("%q is not there", text)
		}
	}
}

// What a container writes into its facts is bounded, and stays in the trace and the time of its turn.
func TestHostileFacts(t *testing.T) {
	e, c := collected(t, nil)
	turn := e.Begin(t.Context(), invocation)
	began := time.Now()
	list := facts(0)
	turn.Fact(list[0])
	for i := range 5000 {
		for _, ev := range list[:2] { // again
			turn.Fact(ev)
		}
		ev := list[2]
		ev.ModelRequestID = fmt.Sprint("mreq_", i%4000)
		ev.Timestamp = turns.At(time.Unix(int64(i)*1e9, 0))
		ev.TraceID, ev.SpanID = strings.Repeat("f", 32), strings.Repeat("f", 16)
		ev.Payload = json.RawMessage(fmt.Sprintf(`{"provider_name":"p%d","model_name":%q}`, i, strings.Repeat("m", 1<<12)))
		turn.Fact(ev)
		ev.Type = turns.ModelFailed
		ev.Payload = json.RawMessage(fmt.Sprintf(`{"failure_category":"code_%d","http_status":-1,"provider_attempt":`+
			`{"token_usage":{"input_tokens":9223372036854775807,"output_tokens":-5}}}`, i))
		turn.Fact(ev)
	}
	foreign := list[6]
	foreign.TurnID = "turn_2"
	turn.Fact(foreign)
	list[8].Payload = json.RawMessage(`{"usage":[]}`)
	turn.Fact(list[8])
	turn.End(t.Context(), answered(), telemetry.Ending{})
	_ = e.Close()
	spans := c.Spans()
	if len(spans) != 1002 {
		t.Fatalf("%d spans, want those of 1000 requests, the turn and its invocation", len(spans))
	}
	seen := make(map[string]bool)
	for _, s := range spans {
		if fmt.Sprintf("%x", s.TraceId) != tracecontext.Root("turn_1").TraceID() || seen[string(s.SpanId)] {
			t.Fatalf("%s has the trace %x and the span %x", s.Name, s.TraceId, s.SpanId)
		}
		seen[string(s.SpanId)] = true
		start, end := time.Unix(0, int64(s.StartTimeUnixNano)), time.Unix(0, int64(s.EndTimeUnixNano))
		if start.Before(began.Add(-time.Second)) || end.After(time.Now()) || end.Before(start) {
			t.Fatalf("%s lasted from %v to %v", s.Name, start, end)
		}
		if n := len(s.Attributes) + int(s.DroppedAttributesCount); n > 20 {
			t.Fatalf("%.40s has %d attributes", s.Name, n)
		}
		if size := len(s.String()); size > 4<<10 {
			t.Fatalf("%.40s takes %d bytes", s.Name, size)
		}
		if kind := telemetrytest.Attribute(s, "error.type"); kind != "" && kind != "_OTHER" {
			t.Fatalf("%.40s has the error %s", s.Name, kind)
		}
	}
	if n := len(c.Metric("gen_ai.client.token.usage").GetHistogram().DataPoints); n != 1 {
		t.Errorf("the tokens have %d combinations of attributes, want one for all models that are not the host's", n)
	}
	if got := telemetrytest.Attribute(spans[slices.Index(telemetrytest.Tree(spans), "invoke_agent main > turn")],
		"holon.turn.spans_left_out"); got != "int_value:3000" {
		t.Errorf("%s spans are said to be left out, want 3000", got)
	}
}

// A turn whose end is not seen ends all that is open.
func TestLostTurn(t *testing.T) {
	e, c := collected(t, nil)
	trace(t, e, invocation, facts(0)[:7], nil, telemetry.Lost)
	trace(t, e, telemetry.Invocation{TurnID: "turn_2"}, nil, nil, telemetry.Lost)
	_ = e.Close()
	failures := make(map[string]string)
	for i, path := range telemetrytest.Tree(c.Spans()) {
		failures[path] = telemetrytest.Attribute(c.Spans()[i], "error.type")
	}
	want := map[string]string{"invoke_agent main": "turn_lost", "invoke_agent main > turn": "turn_lost",
		"invoke_agent main > turn > execute_tool ExecCommand": "interrupted", "invoke_agent": "turn_lost"}
	delete(failures, "invoke_agent main > turn > chat gpt") // there are two
	if diff := cmp.Diff(want, failures); diff != "" {
		t.Errorf("failures differ (-want +got):\n%s", diff)
	}
	if c.Has("SECRET") {
		t.Error("there is content in the telemetry")
	}
}

// A turn that another process takes up has its begin from the facts.
func TestRejoinedTurn(t *testing.T) {
	e, c := collected(t, nil)
	again := invocation
	again.Rejoined = true
	list := facts(0)
	for i := range list {
		list[i].Timestamp = turns.At(list[i].Timestamp.Time().Add(-time.Hour))
	}
	trace(t, e, again, list, answered(), telemetry.Ending{})
	_ = e.Close()
	for _, s := range c.Spans() {
		took := time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano)
		if s.Name == "invoke_agent main" && took.Round(time.Minute) != time.Hour || s.Name == "turn" && took > time.Minute {
			t.Errorf("%s took %v", s.Name, took)
		}
	}
}

// Without an exporter, without traces, and for traces that are not sampled there are no spans, and agentd gets none.
func TestOff(t *testing.T) {
	var none *telemetry.Exporter
	turn := none.Begin(t.Context(), invocation)
	turn.Fact(facts(0)[0])
	turn.End(t.Context(), nil, telemetry.Lost)
	if turn.Span().Valid() || none.Close() != nil {
		t.Error("an exporter that is not there does something")
	}
	e, c := collected(t, func(o *telemetry.Options) { o.Traces = false })
	if turn = e.Begin(t.Context(), invocation); turn.Span().Valid() {
		t.Error("agentd gets a trace although there are only metrics")
	}
	turn.End(t.Context(), answered(), telemetry.Ending{})
	_ = e.Close()
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	e, _ = open(t, c.URL, nil)
	if turn = e.Begin(t.Context(), invocation); !turn.Span().Valid() || turn.Span().Sampled {
		t.Errorf("a trace that is not sampled is %s", turn.Span())
	}
	turn.End(t.Context(), answered(), telemetry.Ending{})
	_ = e.Close()
	if len(c.Spans()) != 0 || c.Metric("holon.turns") == nil {
		t.Errorf("%d spans, metric %v", len(c.Spans()), c.Metric("holon.turns"))
	}
}

// A collector that is not there, refuses or never answers delays nothing but the end of the process, and that a little.
func TestNoCollector(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	gone := "http://" + free.Addr().String()
	_ = free.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer refusing.Close()
	hold, release := context.WithCancel(t.Context())
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold.Done() }))
	defer silent.Close()
	defer release()
	const overflow = 9000 // more than the queue holds
	for name, c := range map[string]struct {
		url  string
		many int64
	}{"gone": {gone, 100}, "refusing": {refusing.URL, 100}, "silent": {silent.URL, overflow}} {
		t.Run(name, func(t *testing.T) {
			e, log := open(t, c.url, nil)
			for range c.many {
				trace(t, e, invocation, facts(0)[:1], answered(), telemetry.Ending{})
			}
			if err := e.Close(); err != nil { // although one collector holds its connections until the test is over
				t.Error(err)
			}
			if e.Lost() != 2*c.many {
				t.Errorf("%d spans are counted as lost, want %d", e.Lost(), 2*c.many)
			}
			if !strings.Contains(log.String(), "spans were lost") {
				t.Errorf("the log does not say that spans were lost: %s", log)
			}
		})
	}
}

// The turn of an agentd alone is below the span that asked for it, as its facts say, and as long as they do.
func TestReplay(t *testing.T) {
	const above = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for header, want := range map[string]int{above + "1": 4, above + "0": 0, "": 4, "x": 4} {
		c := telemetrytest.Start(nil)
		e, _ := open(t, c.URL, nil)
		list := facts(time.Hour)
		list[0].Payload = json.RawMessage(fmt.Sprintf(`{"traceparent":%q}`, header))
		if e.Replay(t.Context(), slices.Values(list[1:])) || e.Replay(t.Context(), slices.Values(list[:0])) {
			t.Error("facts that do not begin with a turn are sent")
		}
		expect.Equal(t, header+": sent", e.Replay(t.Context(), slices.Values(list)), (want > 0))
		_ = e.Close()
		c.Close()
		trace, top := tracecontext.Root("turn_1"), "turn"
		if parent := tracecontext.Parse(header); parent.Valid() {
			trace, top = parent, "? > turn"
		}
		if got := len(c.Spans()); got != want {
			t.Errorf("%q: %d spans, want %d", header, got, want)
			continue
		}
		for i, path := range telemetrytest.Tree(c.Spans()) {
			s := c.Spans()[i]
			if !strings.HasPrefix(path, top) || fmt.Sprintf("%x", s.TraceId) != trace.TraceID() {
				t.Errorf("%q: %s has the trace %x", header, path, s.TraceId)
			}
			if took := time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano); took < time.Hour {
				t.Errorf("%q: %s took %v", header, path, took)
			}
		}
	}
}

// A gauge has the value of the moment in which metrics are sent, and none when that cannot be read.
func TestGauge(t *testing.T) {
	e, c := collected(t, nil)
	n := int64(1)
	e.Gauge("waiting", "{message}", "It waits.", func(context.Context) (int64, error) { return n, nil })
	e.Gauge("broken", "{message}", "It fails.", func(context.Context) (int64, error) { return 7, errors.New("no") })
	n = 5
	_ = e.Close()
	if points := c.Metric("waiting").GetGauge().GetDataPoints(); len(points) != 1 || points[0].GetAsInt() != 5 {
		t.Errorf("the gauge has %v, want 5", points)
	}
	if m := c.Metric("broken"); m != nil {
		t.Errorf("a gauge that cannot be read has %v", m)
	}
	var none *telemetry.Exporter
	none.Gauge("waiting", "", "", nil)
}
