package record

import (
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

// The end of a turn whose readers were told of no usage has that of its attempts.
func TestClosingFactWithAttempts(t *testing.T) {
	used := turns.TokenUsage{InputTokens: 3, OutputTokens: 2, TotalTokens: 5, Estimated: true}
	totals := Totals{Attempts: turns.ProviderTimeline{AggregatedTokenUsage: &used}}
	resp := responses.Response{Status: responses.StatusFailed, Usage: &responses.Usage{}}
	ended := closingFact(turns.Scope{Now: now}, &Stored{}, resp, totals)
	const want = `"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5`
	if !strings.Contains(string(ended.Payload), want) || !strings.Contains(string(ended.Payload), `"estimated":true`) {
		t.Errorf("%s lacks %s", ended.Payload, want)
	}
}

// A turn was cut off between the end of a model request and its cost: the cost is told before the end, once.
func TestCostThatWasCutOff(t *testing.T) {
	end := turns.RuntimeEvent{Type: turns.ModelCompleted,
		Payload: []byte(`{"provider_attempt":{"token_usage":{"input_tokens":718,"output_tokens":6,"total_tokens":724}}}`)}
	end.ModelRequestID = "mreq_1"
	var open openFacts
	open.take(end)
	facts := open.closing(turns.Scope{Now: now}, nil)
	if len(facts) != 1 || facts[0].Type != turns.CostRecorded || facts[0].ModelRequestID != "mreq_1" ||
		!strings.Contains(string(facts[0].Payload), `"input_tokens":718`) {
		t.Fatalf("closing tells %+v, want the cost of the request", facts)
	}
	open.take(facts[0])
	if again := open.closing(turns.Scope{Now: now}, nil); len(again) != 0 {
		t.Errorf("a cost that is told is told again: %+v", again)
	}
}

// A response has more usage than the requests that a log tells of: the end of the log has that of the log.
func TestClosingFactHasTheUsageOfItsLog(t *testing.T) {
	used := turns.TokenUsage{InputTokens: 3, OutputTokens: 2, TotalTokens: 5}
	resp := responses.Response{Status: responses.StatusFailed,
		Usage: &responses.Usage{InputTokens: 9, OutputTokens: 9, TotalTokens: 18}}
	for want, totals := range map[string]Totals{
		`"input_tokens":3,`: {Attempts: turns.ProviderTimeline{AggregatedTokenUsage: &used}},
		"":                  {},
	} {
		ended := closingFact(turns.Scope{Now: now}, &Stored{}, resp, totals)
		if has := string(ended.Payload); !strings.Contains(has, want) || strings.Contains(has, `"input_tokens":9`) {
			t.Errorf("%s lacks %q, or has what the log does not tell", has, want)
		}
	}
}
