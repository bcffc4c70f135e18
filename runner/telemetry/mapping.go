package telemetry

import (
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
)

// maxSpans bounds the model requests and tool calls of a turn that get a span. The rest is counted.
const maxSpans = 1000

// maxAge bounds how long ago a turn that another process asked for may have begun.
const maxAge = 31 * 24 * time.Hour

// mapping makes the spans of a turn from its facts.
type mapping struct {
	in      Invocation
	root    tracecontext.Span
	options Options

	turn    span            // as agentd sees it; without a name until it is submitted
	spans   []span          // of model requests and tool calls
	index   map[string]int  // of those, by id
	open    map[string]bool // that have not ended, by id
	leftOut int64
	started bool
	rounds  int64 // the newest
	calls   int64 // of tools, that have begun
	whole   bool  // the end of the turn has both, and its tokens
}

func newMapping(in Invocation, root tracecontext.Span, o Options) *mapping {
	return &mapping{in: in, root: root, options: o, index: make(map[string]int), open: make(map[string]bool)}
}

// take takes the next fact. One that makes no sense is left out.
func (m *mapping) take(ev turns.RuntimeEvent) {
	if ev.TurnID != m.in.TurnID {
		return
	}
	switch ev.Type {
	case turns.TurnSubmitted:
		m.submitted(ev)
	case turns.TurnStarted:
		var p turns.Started
		if !m.started && decode(ev, &p) {
			m.started = true
			m.turn.more = number(m.turn.more, keyQueueWait, p.QueueWaitMS)
		}
	case turns.TurnCompleted, turns.TurnFailed:
		m.ended(ev)
	case turns.ModelRequested:
		m.requested(ev)
	case turns.ModelCompleted, turns.ModelFailed:
		m.sampled(ev)
	case turns.ToolStarted:
		m.called(ev)
	case turns.ToolResult, turns.ToolFailed:
		m.answered(ev)
	}
}

func decode(ev turns.RuntimeEvent, to any) bool { return json.Unmarshal(ev.Payload, to) == nil }

func (m *mapping) submitted(ev turns.RuntimeEvent) {
	var p turns.Submitted
	if m.turn.name != "" || !decode(ev, &p) {
		return
	}
	m.turn = span{at: m.root.Child(m.in.TurnID), above: m.root, name: "turn", kind: trace.SpanKindInternal,
		start: ev.Timestamp.Time(), end: ev.Timestamp.Time()}
	m.turn.more = text(text(nil, keyTurnID, m.in.TurnID), keyConversation, m.in.SessionID)
	m.turn.more = text(m.turn.more, keyResponseID, p.ResponseID)
}

func (m *mapping) ended(ev turns.RuntimeEvent) {
	if m.turn.status != "" {
		return
	}
	m.turn.end, m.turn.status = ev.Timestamp.Time(), listed(ev.Status, statuses...)
	if ev.Type == turns.TurnFailed {
		var p turns.Failure
		_ = decode(ev, &p) // it failed all the same
		m.turn.failure = failure(p.FailureCategory)
		return
	}
	var p turns.Completed
	if m.whole = decode(ev, &p); m.whole {
		m.turn.input, m.turn.output = count(p.Usage.InputTokens), count(p.Usage.OutputTokens)
		m.rounds, m.calls = int64(p.Rounds), int64(p.ToolCalls)
	}
}

// total counts what a turn took and did whose end does not say it: what its requests and calls say.
func (m *mapping) total() {
	if m.whole {
		return
	}
	for _, s := range m.spans {
		m.turn.input, m.turn.output = count(m.turn.input+s.input), count(m.turn.output+s.output)
	}
}

// begin adds a span about id, unless there are too many, and reports whether it is the first with that id.
func (m *mapping) begin(id string, s span, ev turns.RuntimeEvent) bool {
	if _, twice := m.index[id]; twice || id == "" {
		return false
	}
	if len(m.spans) == maxSpans {
		m.leftOut++
		return true
	}
	above := m.root.Child(m.in.TurnID)
	s.at, s.above, s.start = above.Child(id), above, ev.Timestamp.Time()
	m.index[id], m.open[id] = len(m.spans), true
	m.spans = append(m.spans, s)
	return true
}

// finish ends the span about id and returns it, nil when there is none that is open.
func (m *mapping) finish(id string, ev turns.RuntimeEvent) *span {
	if !m.open[id] {
		return nil
	}
	delete(m.open, id)
	s := &m.spans[m.index[id]]
	s.end = ev.Timestamp.Time()
	return s
}

func (m *mapping) requested(ev turns.RuntimeEvent) {
	var p turns.Requested
	if !decode(ev, &p) {
		return
	}
	s := span{operation: opChat, provider: cut(p.ProviderName, maxText), model: cut(p.ModelName, maxText),
		kind: trace.SpanKindClient}
	s.name = strings.TrimRight(opChat+" "+s.model, " ")
	s.more = number(number(text(nil, keyConversation, m.in.SessionID), keyRound, int64(p.Round)), keyAttempt,
		int64(p.Attempt))
	s.more = text(s.more, keyPurpose, listed(p.Purpose, "", turns.PurposeSummary))
	if m.begin(ev.ModelRequestID, s, ev) {
		m.rounds = max(m.rounds, int64(p.Round))
	}
}

func (m *mapping) sampled(ev turns.RuntimeEvent) {
	s := m.finish(ev.ModelRequestID, ev)
	if s == nil {
		return
	}
	if ev.Type == turns.ModelFailed {
		var p turns.AttemptFailure
		_ = decode(ev, &p) // it failed all the same
		s.failure, s.more = failure(p.FailureCategory), number(s.more, keyHTTPStatus, int64(p.HTTPStatus))
		if p.ProviderAttempt != nil && p.ProviderAttempt.TokenUsage != nil {
			s.input, s.output = count(p.ProviderAttempt.TokenUsage.InputTokens),
				count(p.ProviderAttempt.TokenUsage.OutputTokens)
		}
		return
	}
	var p turns.Sampled
	if !decode(ev, &p) {
		return
	}
	s.input, s.output = count(p.Usage.InputTokens), count(p.Usage.OutputTokens)
	s.more = number(s.more, keyCachedTokens, p.Usage.InputTokenDetails.CachedTokens)
	s.more = text(s.more, keyNativeRequest, p.NativeRequestID)
	if p.StopReason != "" {
		s.more = append(s.more, keyFinishReasons.StringSlice([]string{cut(p.StopReason, maxText)}))
	}
}

func (m *mapping) called(ev turns.RuntimeEvent) {
	var p turns.Begun
	if !decode(ev, &p) {
		return
	}
	s := span{operation: opTool, kind: trace.SpanKindInternal, name: opTool + " " + cut(p.ToolName, maxText)}
	s.more = text(text(nil, keyToolName, p.ToolName), keyToolCallID, p.CallID)
	s.more = append(s.more, keyToolType.String("function"))
	s.more = m.content(s.more, keyArguments, p.Arguments)
	if m.begin(ev.ToolCallID, s, ev) {
		m.calls++
	}
}

func (m *mapping) answered(ev turns.RuntimeEvent) {
	s := m.finish(ev.ToolCallID, ev)
	if s == nil {
		return
	}
	var p struct {
		FailureCategory string `json:"failure_category"`
		Preview         string `json:"preview"`
	}
	_ = decode(ev, &p) // it ended all the same
	if ev.Type == turns.ToolFailed {
		s.failure = failure(p.FailureCategory)
	}
	s.more = m.content(s.more, keyResult, p.Preview)
}

// content appends text of prompts, answers, arguments or results, if that was asked for.
func (m *mapping) content(list []attribute.KeyValue, key attribute.Key, value string) []attribute.KeyValue {
	if !m.options.Content || value == "" {
		return list
	}
	return append(list, key.String(cut(m.options.Secrets.Text(value), maxContent)))
}

// message is content in the form of the conventions.
func (m *mapping) message(list []attribute.KeyValue, key attribute.Key, role, content string) []attribute.KeyValue {
	if !m.options.Content || content == "" {
		return list
	}
	part := map[string]any{"type": "text", "content": cut(m.options.Secrets.Text(content), maxContent)}
	data, err := json.Marshal([]map[string]any{{"role": role, "parts": []any{part}}})
	if err != nil { // it is all text
		return list
	}
	return append(list, key.String(string(data)))
}

// end returns all spans of the turn, the first one first. began and now are times of the host.
func (m *mapping) end(began, now time.Time, final *responses.Response, how Ending) []span {
	m.total()
	if m.in.Rejoined && m.turn.name != "" {
		began = clamp(m.turn.start, now.Add(-maxAge), began)
	}
	root := m.invocation(final, how)
	root.start, root.end = began, now
	out := []span{root}
	if m.turn.name != "" {
		if m.turn.status == "" { // its end was not seen
			m.turn.end, m.turn.failure = now, root.failure
		}
		m.turn.within(began, now)
		m.turn.more = number(number(m.turn.more, keyRounds, m.rounds), keyToolCalls, m.calls)
		m.turn.more = number(m.turn.more, keyLeftOut, m.leftOut)
		out = append(out, m.turn)
		began, now = m.turn.start, m.turn.end
	}
	for id := range m.open {
		s := &m.spans[m.index[id]]
		s.end, s.failure = now, "interrupted"
	}
	for _, s := range m.spans {
		s.within(began, now)
		if m.turn.name == "" {
			s.above = root.at
		}
		out = append(out, s)
	}
	return out
}

// invocation is the turn as the host sees it.
func (m *mapping) invocation(final *responses.Response, how Ending) span {
	s := span{at: m.root, name: opInvoke, operation: opInvoke, kind: trace.SpanKindInternal, status: m.turn.status,
		input: m.turn.input, output: m.turn.output}
	if len(m.in.Models) > 0 {
		s.provider, s.model, _ = strings.Cut(m.in.Models[0], "/")
	}
	if m.in.AgentID != "" {
		s.name += " " + cut(m.in.AgentID, maxText)
		s.more = text(s.more, keyAgentID, m.in.AgentID)
	}
	s.more = m.message(text(s.more, keyConversation, m.in.SessionID), keyInput, "user", m.in.Prompt)
	if final == nil {
		s.status, s.failure = listed(how.Status, statuses...), failure(how.Failure)
		return s
	}
	s.status = listed(string(final.Status), statuses...)
	s.more = m.message(s.more, keyOutput, "assistant", final.OutputText())
	switch {
	case final.Error != nil:
		s.failure = failure(final.Error.Code)
	case final.Status != responses.StatusCompleted:
		s.failure = s.status
	}
	return s
}
