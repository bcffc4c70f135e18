package turn

import (
	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
)

func (s *sampler) reasoning(ev model.Event) error {
	switch ev.Kind {
	case model.ReasoningBegin:
		if err := s.endItem(""); err != nil {
			return err
		}
		return s.Emitter.BeginReasoning()
	case model.SummaryDelta:
		return s.Emitter.Summary(ev.Text)
	case model.SummaryPartEnd:
		return s.Emitter.EndPart()
	case model.ReasoningEnd:
		if s.Request.Includes(responses.IncludeReasoning) { // only then its client sees it
			s.Emitter.SetEncryptedReasoning(ev.Text)
		}
		return s.end(ev.Text)
	}
	s.raw += len(ev.Text)
	return nil // raw reasoning stays with the provider: SDKs reject its events
}

// maxThoughts bounds the facts about the reasoning in one answer.
const maxThoughts = 64

// thought records that an item of reasoning is complete. Its text is in none of the facts.
func (s *sampler) thought(item *responses.Reasoning) error {
	var list []turns.RuntimeEvent
	if s.raw > 0 || item.EncryptedContent != "" {
		list = append(list, s.Scope.OfRequest(turns.ReasoningDelta, s.asked, turns.Withheld{Redacted: true,
			OutputChars: s.raw, EncryptedBytes: len(item.EncryptedContent)}))
	}
	for i, part := range item.Summary {
		list = append(list, s.Scope.OfRequest(turns.ReasoningSummary, s.asked, turns.Summarized{TextRef: item.ID,
			PartIndex: i, OutputChars: len(part.Text)}))
	}
	s.raw = 0
	if s.asked == "" { // of this request there are no facts
		return nil
	}
	for _, ev := range list {
		if s.facts++; s.facts > maxThoughts {
			return nil
		}
		ev.StepID = item.ID
		if err := s.Journal.Event(ev); err != nil {
			return err
		}
	}
	return nil
}
