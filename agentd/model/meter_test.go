package model_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

// stream is a transport that yields events, and an error unless the last is Done. counted is what the provider said
// before.
type stream struct {
	events  []model.Event
	counted *model.Counted
}

func (s stream) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if s.counted != nil {
			req.Count(s.counted.Usage, s.counted.Final)
		}
		for _, ev := range s.events {
			if !yield(ev, nil) || ev.Kind == model.Done {
				return
			}
		}
		yield(model.Event{}, &model.Error{Kind: model.KindTransport, Message: "reset"})
	}
}

func usageOf(in, out int64, estimated bool) responses.Usage {
	return responses.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out, Estimated: estimated}
}

// What an attempt cost that has no end is what the provider counted until then, and an estimate of the rest.
func TestUsageOfFailedAttempts(t *testing.T) {
	text := func(s string) model.Event { return model.Event{Kind: model.TextDelta, Text: s} }
	ten := strings.Repeat("word", 10)
	req := model.Request{Instructions: strings.Repeat("word", 7)}
	counted := func(in, out int64, final bool) *model.Counted {
		return &model.Counted{Usage: usageOf(in, out, false), Final: final}
	}
	for name, tt := range map[string]struct {
		stream
		want responses.Usage
	}{
		"nothing":            {stream{}, responses.Usage{}},
		"text":               {stream{events: []model.Event{text(ten)}}, usageOf(7, 10, true)},
		"a message's begin":  {stream{events: []model.Event{{Kind: model.MessageBegin}}}, usageOf(7, 0, true)},
		"input counted":      {stream{[]model.Event{text(ten)}, counted(50, 1, false)}, usageOf(50, 10, true)},
		"only input counted": {stream{nil, counted(50, 1, false)}, usageOf(50, 1, true)},
		"all counted":        {stream{[]model.Event{text(ten)}, counted(50, 4, true)}, usageOf(50, 4, false)},
		"an impossible count": {stream{[]model.Event{text(ten)}, counted(-1, 4, true)},
			usageOf(7, 10, true)},
		"a call": {stream{events: []model.Event{{Kind: model.CallBegin, CallID: "c", Name: "f"},
			{Kind: model.CallDelta, Text: ten}, {Kind: model.CallEnd, Text: ten}}}, usageOf(7, 10, true)},
		"a call without deltas": {stream{events: []model.Event{{Kind: model.CallBegin, CallID: "c", Name: "f"},
			{Kind: model.CallEnd, Text: ten}}}, usageOf(7, 10, true)},
		"a thought": {stream{events: []model.Event{{Kind: model.ReasoningBegin}, {Kind: model.SummaryDelta, Text: ten},
			{Kind: model.ReasoningEnd, Text: strings.Repeat("sealed", 99)}}}, usageOf(7, 10, true)},
	} {
		w := &watch{}
		req.Observer = w
		for range model.Retry(tt.stream, "p/m", model.Policy{}).Stream(t.Context(), req) {
		}
		expect.Equal(t, name+": usage", w.last.Usage, tt.want)
	}
}

// A provider that ignores max_output_tokens is cut where no tokenizer would have made fewer tokens of what it said. One
// that keeps to its own count is never cut.
func TestOutputLimit(t *testing.T) {
	text := func(s string) model.Event { return model.Event{Kind: model.TextDelta, Text: s} }
	done := func(out int64) model.Event {
		return model.Event{Kind: model.Done, Stop: model.StopEnd, Usage: usageOf(1, out, false)}
	}
	for name, tt := range map[string]struct {
		events    []model.Event
		text      string
		stop      model.Stop
		output    int64
		estimated bool
	}{
		"within": {[]model.Event{text("one two three"), done(3)}, "one two three", model.StopEnd, 3, false},
		"words": {[]model.Event{text("one two three four five"),
			done(5)},
			"one two three", model.StopMaxTokens, 3, true},
		"words, pieces": {[]model.Event{text("on"), text("e t"), text("wo three f"),
			done(5)},
			"one two three", model.StopMaxTokens, 3, true},
		"no spaces": {[]model.Event{text(strings.Repeat("語", 60)),
			done(60)},
			strings.Repeat("語", 48), model.StopMaxTokens, 3,
			true},
		"a ruler": {[]model.Event{text(strings.Repeat("-", 3*128)),
			done(3)},
			strings.Repeat("-", 3*128), model.StopEnd, 3, false},
		"long tokens": {[]model.Event{text("internationalization, "), text("internationalization"),
			done(3)},
			"internationalization, internationalization", model.StopEnd, 3, false},
		"its own count is over": {[]model.Event{text("onetwothreefourfive"), done(5)}, "onetwothreefourfive",
			model.StopMaxTokens, 5, false},
		"a thought may be longer": {[]model.Event{{Kind: model.SummaryDelta, Text: "a b c d e f g h "}, text("x"),
			done(3)},
			"x",
			model.StopEnd, 3, false},
		"an endless thought": {[]model.Event{{Kind: model.SummaryDelta, Text: strings.Repeat("a ", 99)}, text("x"),
			done(3)},
			"",
			model.StopMaxTokens, 3, true},
	} {
		limit := 3
		got, stop, usage := "", model.Stop(""), responses.Usage{}
		for ev, err := range model.Retry(stream{events: tt.events}, "p/m", model.Policy{}).Stream(t.Context(),
			model.Request{MaxOutputTokens: &limit}) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch ev.Kind {
			case model.TextDelta:
				got += ev.Text
			case model.Done:
				stop, usage = ev.Stop, ev.Usage
			}
		}
		if diff := cmp.Diff(tt.text, strings.TrimSuffix(got, " ")); diff != "" {
			t.Errorf("%s: the text (-want +got):\n%s", name, diff)
		}
		if stop != tt.stop || usage.OutputTokens != tt.output || usage.Estimated != tt.estimated {
			t.Errorf("%s: stop %s, usage %+v, want stop %s, %d tokens, estimated %t", name, stop, usage, tt.stop, tt.output,
				tt.estimated)
		}
	}
}
