package model_test

import (
	"context"
	"iter"
	"math"
	"testing"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

// claim is a transport whose answer of 400 bytes claims to have cost what it is.
type claim responses.Usage

func (c claim) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		_ = yield(model.Event{Kind: model.TextDelta, Text: string(make([]byte, 400))}, nil) &&
			yield(model.Event{Kind: model.Done, Stop: model.StopEnd, Usage: responses.Usage(c)}, nil)
	}
}

// Budgets are kept by what providers claim, so a claim that cannot be is replaced
// by an estimate.
func TestImpossibleUsage(t *testing.T) {
	usage := func(in, out, total, cached, thought int64) responses.Usage {
		return responses.Usage{InputTokens: in, OutputTokens: out, TotalTokens: total,
			InputTokenDetails:  responses.InputTokenDetails{CachedTokens: cached},
			OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: thought}}
	}
	estimate := usage(0, 100, 100, 0, 0)
	estimate.Estimated = true
	total := usage(30, 0, 30, 0, 0)
	total.Estimated = true
	for name, tc := range map[string]struct{ claimed, want responses.Usage }{
		"possible":           {usage(10, 20, 30, 5, 6), usage(10, 20, 30, 5, 6)},
		"none":               {usage(0, 0, 0, 0, 0), estimate},
		"wrong total":        {usage(10, 20, 31, 0, 0), usage(10, 20, 30, 0, 0)},
		"total alone":        {usage(0, 0, 30, 0, 0), total},
		"negative output":    {usage(10, -99999, 30, 0, 0), estimate},
		"negative input":     {usage(-1, 20, 19, 0, 0), estimate},
		"negative total":     {usage(10, 20, -30, 0, 0), estimate},
		"huge":               {usage(math.MaxInt64, math.MaxInt64, -2, 0, 0), estimate},
		"billions":           {usage(2e9, 20, 2e9+20, 0, 0), estimate},
		"negative reasoning": {usage(10, 20, 30, 0, -1), estimate},
	} {
		w := &watch{}
		var got responses.Usage
		for ev, err := range model.Retry(claim(tc.claimed), "p/m", model.DefaultPolicy()).Stream(t.Context(),
			model.Request{Observer: w}) {
			expect.NoError(t, err)
			got = ev.Usage
		}
		if got != tc.want || w.last.Usage != tc.want {
			t.Errorf("%s: usage %+v, of the attempt %+v, want %+v", name, got, w.last.Usage, tc.want)
		}
	}
}
