package telemetry

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"holon/internal/tracecontext"
)

// Names of the semantic conventions for generative AI (opentelemetry.io/docs/specs/semconv/gen-ai, of which there is no
// Go package), and of our own.
const (
	keyOperation     = attribute.Key("gen_ai.operation.name")
	keyProvider      = attribute.Key("gen_ai.provider.name")
	keyRequestModel  = attribute.Key("gen_ai.request.model")
	keyResponseID    = attribute.Key("gen_ai.response.id")
	keyFinishReasons = attribute.Key("gen_ai.response.finish_reasons")
	keyConversation  = attribute.Key("gen_ai.conversation.id")
	keyAgentID       = attribute.Key("gen_ai.agent.id")
	keyInputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	keyOutputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	keyCachedTokens  = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	keyTokenType     = attribute.Key("gen_ai.token.type")
	keyToolName      = attribute.Key("gen_ai.tool.name")
	keyToolType      = attribute.Key("gen_ai.tool.type")
	keyToolCallID    = attribute.Key("gen_ai.tool.call.id")
	keyArguments     = attribute.Key("gen_ai.tool.call.arguments")
	keyResult        = attribute.Key("gen_ai.tool.call.result")
	keyInput         = attribute.Key("gen_ai.input.messages")
	keyOutput        = attribute.Key("gen_ai.output.messages")
	keyErrorType     = attribute.Key("error.type")
	keyHTTPStatus    = attribute.Key("http.response.status_code")

	keyTurnID    = attribute.Key("holon.turn.id")
	keyStatus    = attribute.Key("holon.turn.status")
	keyRounds    = attribute.Key("holon.turn.rounds")
	keyToolCalls = attribute.Key("holon.turn.tool_calls")
	keyQueueWait = attribute.Key("holon.turn.queue_wait_ms")
	keyLeftOut   = attribute.Key("holon.turn.spans_left_out")
	keyRound     = attribute.Key("holon.round")
	keyAttempt   = attribute.Key("holon.attempt")
	keyPurpose   = attribute.Key("holon.purpose")
	// of the request or the response, as the provider calls it
	keyNativeRequest = attribute.Key("holon.native_request_id")
)

// Operations, as the conventions name them. A turn as agentd sees it is none.
const (
	opInvoke = "invoke_agent"
	opChat   = "chat"
	opTool   = "execute_tool"
)

// Bounds of texts, in bytes, and of numbers.
const (
	maxText    = 256
	maxContent = 8 << 10
	maxNumber  = 1 << 40
)

// span is one operation of a turn.
type span struct {
	at, above     tracecontext.Span // above is zero for the first
	name          string
	operation     string
	provider      string // of a model, or of the agent's
	model         string
	kind          trace.SpanKind
	start, end    time.Time
	more          []attribute.KeyValue
	failure       string // "" when it went well
	input, output int64  // tokens
	status        string // of the turn, where operation is invoke_agent
}

// attributes are all that the span has.
func (s *span) attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, a := range []struct {
		key   attribute.Key
		value string
	}{{keyOperation, s.operation}, {keyProvider, s.provider}, {keyRequestModel, s.model},
		{keyErrorType, s.failure}, {keyStatus, s.status}} {
		all = text(all, a.key, a.value)
	}
	if s.input > 0 || s.output > 0 {
		all = append(all, keyInputTokens.Int64(s.input), keyOutputTokens.Int64(s.output))
	}
	return append(all, s.more...)
}

// within moves the times of a span into those of the one above it: clocks of containers are not trusted.
func (s *span) within(start, end time.Time) {
	s.start = clamp(s.start, start, end)
	s.end = clamp(s.end, s.start, end)
}

func clamp(t, low, high time.Time) time.Time {
	switch {
	case t.Before(low):
		return low
	case t.After(high):
		return high
	}
	return t
}

// text appends an attribute, cut to maxText, unless it has no value.
func text(list []attribute.KeyValue, key attribute.Key, value string) []attribute.KeyValue {
	if value == "" {
		return list
	}
	return append(list, key.String(cut(value, maxText)))
}

// number appends an attribute unless it is 0.
func number(list []attribute.KeyValue, key attribute.Key, n int64) []attribute.KeyValue {
	if n = count(n); n == 0 {
		return list
	}
	return append(list, key.Int64(n))
}

func count(n int64) int64 { return min(max(n, 0), maxNumber) }

// cut returns the beginning of s in valid UTF-8, without which nothing of a batch could be sent.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "")
}
