package record

import (
	"slices"

	"holon/responses"
	"holon/responses/turns"
)

// missing returns those of facts about calls of the client's functions that the turn does not have.
func (k *keptFacts) missing(facts []turns.RuntimeEvent) []turns.RuntimeEvent {
	return slices.DeleteFunc(facts, func(ev turns.RuntimeEvent) bool { return k.ofCalls[ev.Type+" "+ev.ToolCallID] })
}

// answered are the facts of the calls that the request of a turn answered.
func (s *Store) answered(scope turns.Scope, stored *Stored) []turns.RuntimeEvent {
	if !slices.ContainsFunc(stored.Input, func(item responses.Item) bool {
		return item.ItemType() == responses.ItemFunctionCallOutput
	}) {
		return nil
	}
	before, h := stored.History, stored.Header
	if h.PreviousResponseID != "" {
		chain, _, err := s.Chain(h.PreviousResponseID)
		if err != nil { // it was deleted meanwhile: no turn goes on with it
			return nil
		}
		before = slices.Concat(chain, before)
	}
	return scope.ClientAnswers(before, stored.Input, h.Facts > 0)
}

// required are the facts of the calls that a turn left to the client.
func required(scope turns.Scope, stored *Stored) (facts []turns.RuntimeEvent) {
	for _, call := range turns.Handed(stored.Items) {
		facts = append(facts, scope.ActionRequired(call))
	}
	return facts
}
