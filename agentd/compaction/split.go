// Package compaction makes a long conversation short: a model writes a summary
// of it, some items are kept word for word, and the summary can be handed to a
// client as an opaque blob that only this server opens again.
//
//	items ─▶ Split ─▶ Kept ────────────────────────────▶ shorter conversation
//	              ├─▶ Head ─▶ Summarizer ─▶ Summary ───▶    in this order
//	              └─▶ After ───────────────────────────▶
//	Summary ─▶ Sealer.Seal ─▶ compaction item ─▶ client ─▶ Sealer.Expand ─▶ message
//
// Two things hold: a call and its output are never separated, and a call that still
// waits for its output is kept, since the client must be able to send the output.
// Nothing else is promised to survive word for word. A summary contains output of
// tools and words of users, so it is shown to a model as a message of the user and
// never as an instruction of higher rank.
package compaction

import (
	"strings"

	"holon/agentd/model"
	"holon/responses"
)

// Budget bounds the part of a conversation that is kept word for word, in tokens as
// estimated by package model.
type Budget struct {
	Messages int // the user's latest messages, before the summary
	Tail     int // the latest items of all kinds, behind the summary

	New  int                       // how many of the latest items no model was told yet; they are in the tail
	Keep func(responses.Item) bool // messages of the user and outputs of calls that are kept whatever their size
}

// Parts are a conversation that was split. Kept, a summary of Head, and After
// make the shorter conversation.
type Parts struct {
	Kept  []responses.Item // instructions, messages of the user, and calls with outputs of the client
	Head  []responses.Item // all but the tail, including the kept messages in their places
	After []responses.Item // calls that wait for their output, then the tail
}

// Split divides a conversation. Messages of the system and of developers are always
// kept; of the user's messages, those to keep and the latest that fit, and none of the
// others before the first that does not; and the outputs to keep, with their calls.
// The items are shared and not changed.
//
// Context items of agentd are left out, since every conversation begins with them
// again; so are items that are never sent to models.
func Split(items []responses.Item, budget Budget) Parts {
	told := len(spoken(items[:len(items)-budget.New]))
	items = spoken(items)
	at := cut(items, budget.Tail, told)
	parts := Parts{Head: items[:at]}
	keep, open := kept(parts.Head, budget), waiting(items)
	for i, item := range parts.Head {
		switch {
		case open[i]:
			parts.After = append(parts.After, item)
		case keep[i]:
			parts.Kept = append(parts.Kept, item)
		}
	}
	parts.After = append(parts.After, items[at:]...)
	return parts
}

// kept reports for each of the items before the tail whether it is kept.
func kept(items []responses.Item, budget Budget) []bool {
	keep := make([]bool, len(items))
	calls := make(map[string]int) // by call id, whose outputs are kept
	for i := len(items) - 1; i >= 0; i-- {
		must := budget.Keep != nil && budget.Keep(items[i])
		switch item := items[i].(type) {
		case *responses.FunctionCallOutput:
			if keep[i] = must; must {
				calls[item.CallID]++
			}
		case *responses.FunctionCall:
			if keep[i] = calls[item.CallID] > 0; keep[i] {
				calls[item.CallID]--
			}
		case *responses.Message:
			switch {
			case item.Role == responses.RoleAssistant || isSummary(item):
			case item.Role != responses.RoleUser || must:
				keep[i] = true
			default:
				budget.Messages -= model.EstimateItem(item)
				keep[i] = budget.Messages >= 0
			}
		}
	}
	return keep
}

// spoken returns the items of the conversation proper.
func spoken(items []responses.Item) []responses.Item {
	list := make([]responses.Item, 0, len(items))
	for _, item := range items {
		if _, opaque := item.(*responses.OpaqueItem); !opaque && !responses.IsContext(item) {
			list = append(list, item)
		}
	}
	return list
}

// waiting returns the indices of the calls without an output. Ids may not be unique:
// an output answers the last call before it.
func waiting(items []responses.Item) map[int]bool {
	open := make(map[int]bool)
	outputs := make(map[string]int) // by call id, those that come later
	for i := len(items) - 1; i >= 0; i-- {
		switch item := items[i].(type) {
		case *responses.FunctionCallOutput:
			outputs[item.CallID]++
		case *responses.FunctionCall:
			if outputs[item.CallID] == 0 {
				open[i] = true
			} else {
				outputs[item.CallID]--
			}
		}
	}
	return open
}

// cut returns the beginning of the longest tail of at most budget tokens that begins
// at told or before, contains no output of an earlier call and does not begin directly
// after a thought: the shortest such tail if all have more tokens.
func cut(items []responses.Item, budget, told int) int {
	best := len(items)
	outputs := make(map[string]int) // in the tail without their calls, by call id
	size := 0
	for i := len(items) - 1; i >= 0; i-- {
		if size += model.EstimateItem(items[i]); size > budget && best <= told {
			break
		}
		switch item := items[i].(type) {
		case *responses.FunctionCallOutput:
			outputs[item.CallID]++
		case *responses.FunctionCall:
			if outputs[item.CallID]--; outputs[item.CallID] <= 0 {
				delete(outputs, item.CallID)
			}
		}
		thought := false
		if i > 0 {
			_, thought = items[i-1].(*responses.Reasoning)
		}
		if len(outputs) == 0 && !thought {
			best = i
		}
	}
	return best
}

// isSummary reports whether m was made of a compaction item by Expand.
func isSummary(m *responses.Message) bool {
	return strings.HasPrefix(m.ID, responses.PrefixCompaction)
}
