package turn

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
)

// The facts say how much reasoning there was, and nothing of what it says.
func TestReasoningFacts(t *testing.T) {
	parts := func(n int) (events []model.Event) {
		for range n {
			events = append(events, ev(model.SummaryDelta, "hush"), ev(model.SummaryPartEnd))
		}
		return events
	}
	raw, sealed := ev(model.ReasoningDelta, "hush"), ev(model.ReasoningEnd, "hushed")
	withheld := func(raw, sealed int) []turns.Withheld {
		return []turns.Withheld{{Redacted: true, OutputChars: raw, EncryptedBytes: sealed}}
	}
	for name, tt := range map[string]struct {
		events    []model.Event
		withheld  []turns.Withheld
		summaries int
	}{
		"a summary":          {join(parts(2), ev(model.ReasoningEnd)), nil, 2},
		"a summary, no end":  {parts(1), nil, 1},
		"only encrypted":     {join(sealed), withheld(0, 6), 0},
		"only raw":           {join(raw, raw), withheld(8, 0), 0},
		"all of it":          {join(parts(1), raw, sealed), withheld(4, 6), 1},
		"nothing":            {join(ev(model.ReasoningEnd)), nil, 0},
		"more than is told":  {parts(100), nil, maxThoughts},
		"another item after": {join(parts(1), raw, ev(model.ReasoningBegin), parts(1)), withheld(4, 0), 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, `{"input":"hi"}`, join(ev(model.ReasoningBegin), tt.events, answer))
			resp, _ := s.run(t, t.Context())
			if diff := cmp.Diff(tt.withheld, facts[turns.Withheld](t, s.journal, turns.ReasoningDelta)); diff != "" {
				t.Errorf("what is withheld differs (-want +got):\n%s", diff)
			}
			summaries := facts[turns.Summarized](t, s.journal, turns.ReasoningSummary)
			if len(summaries) != tt.summaries {
				t.Errorf("%d parts of summaries are told of, want %d", len(summaries), tt.summaries)
			}
			for _, p := range summaries {
				known := slices.ContainsFunc(resp.Output, func(item responses.Item) bool { return item.ItemID() == p.TextRef })
				if !known || p.OutputChars != len("hush") {
					t.Errorf("%+v is not a part of an item of the response", p)
				}
			}
			for _, ev := range s.journal.events {
				if strings.Contains(string(ev.Payload), "hush") {
					t.Errorf("%s has the text: %s", ev.Type, ev.Payload)
				}
			}
		})
	}
}
