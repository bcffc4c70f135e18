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
