package compaction

import (
	"encoding/json"
	"fmt"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
)

const (
	// latest is the number of calls whose results are kept, since the model works with
	// them. If that saves too little, only those of the last round are kept.
	latest = 8

	receiptBytes = 768 // of a receipt's text, about
)

// receiptHead begins every receipt.
const receiptHead = "(What this call gave was shortened to make room.)"

// Receipts configure how the results of calls are shortened.
type Receipts struct {
	Families tools.Families                 // what is known of results
	Spare    func(*responses.ToolCall) bool // calls whose results are always kept; nil for none
}

// Shorten returns items in which results of the container's tools are replaced by
// receipts, the oldest first, until need tokens are saved or no result is left that
// saves any; and the number of replaced results and saved tokens. Results of the
// latest calls are kept if that saves enough.
//
// A receipt is made of the canonical result alone (RFC "Compaction Contract"), by
// the family of the tool: the outcome, the beginning and the end of the output,
// handles, the state of each item, and the files that have all of the output. It
// depends on nothing but the call, so every later turn makes the same bytes of
// it. items are not changed.
func (r Receipts) Shorten(items []responses.Item, need int) (shorter []responses.Item, calls, saved int) {
	shorter = append([]responses.Item(nil), items...)
	for _, keep := range []int{latest, lastRound(items)} {
		left := keep
		stop := len(shorter)
		for stop > 0 && left > 0 {
			stop--
			if _, ok := shorter[stop].(*responses.ToolCall); ok {
				left--
			}
		}
		for i := 0; i < stop && saved < need; i++ {
			call, ok := shorter[i].(*responses.ToolCall)
			if !ok || r.Spare != nil && r.Spare(call) {
				continue
			}
			if receipt, gain := r.receipt(call); gain > 0 {
				shorter[i], calls, saved = receipt, calls+1, saved+gain
			}
		}
		if saved >= need || keep < latest {
			break
		}
	}
	return shorter, calls, saved
}

// lastRound returns how many calls the last round made, at most latest.
func lastRound(items []responses.Item) int {
	n, round := 0, ""
	for i := len(items) - 1; i >= 0 && n < latest; i-- {
		call, ok := items[i].(*responses.ToolCall)
		if !ok {
			continue
		}
		if n > 0 && (call.Round == "" || call.Round != round) {
			break
		}
		n, round = n+1, call.Round
	}
	return n
}

// receipt returns the short form of a call and the number of tokens that it saves,
// 0 when they are too few.
func (r Receipts) receipt(call *responses.ToolCall) (short *responses.ToolCall, gain int) {
	var canonical tools.Result
	if json.Unmarshal(call.Result, &canonical) != nil || canonical.Result == nil && canonical.Error == nil {
		return nil, 0
	}
	c := *call
	c.Output, c.Media = receiptHead+"\n"+r.Families.Receipt(canonical, call.ArtifactDir, receiptBytes), nil
	if call.ArtifactDir != "" { // said in advance: a text that depends on what is there now would not stay the same
		c.Output += "\n(Files of an old turn may have been removed.)"
	}
	if n := len(call.Media); n > 0 {
		c.Output += fmt.Sprintf("\n(Pictures or files that came with it and are not shown any more: %d.)", n)
	}
	before := model.EstimateItem(call)
	if gain = before - model.EstimateItem(&c); gain < before/4 {
		return nil, 0
	}
	return &c, gain
}
