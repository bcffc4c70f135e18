package turns

import (
	"strings"
	"testing"
	"time"

	"holon/responses"
)

// A turn was cut off between the end of a model request and its cost: the cost is recorded before the end, once.
func TestCostThatWasCutOff(t *testing.T) {
	var p Progress
	p.Take(RuntimeEvent{Type: ModelCompleted, ModelRequestID: "mreq_1",
		Payload: []byte(`{"provider_attempt":{"token_usage":{"input_tokens":718,"output_tokens":6,"total_tokens":724}}}`)})
	facts := p.Closing(Scope{}, &responses.Response{})
	if len(facts) != 1 || facts[0].Type != CostRecorded || facts[0].ModelRequestID != "mreq_1" ||
		!strings.Contains(string(facts[0].Payload), `"input_tokens":718`) {
		t.Fatalf("closing records %+v, want the cost of the request", facts)
	}
	if again := p.Closing(Scope{}, &responses.Response{}, facts...); len(again) != 0 {
		t.Errorf("a recorded cost is recorded again: %+v", again)
	}
}

// The end of a turn has the usage of its attempts, whatever its readers got.
func TestEndHasTheUsageOfItsAttempts(t *testing.T) {
	used := TokenUsage{InputTokens: 3, OutputTokens: 2, TotalTokens: 5, Estimated: true}
	for _, tc := range []struct {
		name     string
		attempts *TokenUsage
		read     responses.Usage
		want     string
	}{
		{"readers got none", &used, responses.Usage{}, `"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5`},
		{"estimated", &used, responses.Usage{}, `"estimated":true`},
		{"readers got more", &used, responses.Usage{InputTokens: 9, OutputTokens: 9, TotalTokens: 18}, `"input_tokens":3,`},
		{"no attempt", nil, responses.Usage{InputTokens: 9, OutputTokens: 9, TotalTokens: 18}, ""},
	} {
		p := Progress{Totals: Totals{Attempts: ProviderTimeline{AggregatedTokenUsage: tc.attempts}}}
		resp := responses.Response{Status: responses.StatusFailed, Usage: &tc.read}
		got := string(p.End(Scope{}, At(time.Now()), &resp, "process_end", nil).Payload)
		if !strings.Contains(got, tc.want) || strings.Contains(got, `"input_tokens":9`) {
			t.Errorf("%s: %s lacks %q, or has what no attempt says", tc.name, got, tc.want)
		}
	}
}

// What a hostile container wrote without end takes a bounded part of the host's memory.
func TestProgressIsBounded(t *testing.T) {
	var p Progress
	payload := make([]byte, 64<<10)
	for range 2 * maxOpened {
		id := responses.NewID(responses.PrefixCall)
		p.Take(RuntimeEvent{Type: ToolStarted, EventID: id, ToolCallID: id, Payload: payload})
	}
	if len(p.open.begun) != maxBegun || len(p.causes.opened) > maxOpened || p.open.begun[0].Payload != nil {
		t.Errorf("%d open calls and %d causes are kept", len(p.open.begun), len(p.causes.opened))
	}
}
