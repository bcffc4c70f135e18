package compaction

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
)

const (
	// latest is the number of calls whose results are kept, since the model works with
	// them. If that saves too little, only those of the last round are kept.
	latest = 8

	receiptBytes = 512 // of the canonical result in a receipt, about
	maxFiles     = 4   // files that a receipt names
)

// receiptHead begins every receipt.
const receiptHead = "(What this call gave was shortened to make room.)"

// Receipts configure how the results of calls are shortened.
type Receipts struct {
	// output directory of the running turn, for paths that were not shown; "" for none
	Dir   string
	Spare func(*responses.ToolCall) bool // calls whose results are always kept; nil for none
}

// Shorten returns items in which results of the container's tools are replaced by
// receipts, the oldest first, until need tokens are saved or no result is left that
// saves any; and the number of replaced results and saved tokens. Results of the
// latest calls are kept if that saves enough, and errors always.
//
// A receipt is made of the canonical result alone (RFC "Compaction Contract"):
// tool, status, summary, short values, handles, and the files that have all of
// the output. The same call gives the same receipt. items are not changed.
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
	if json.Unmarshal(call.Result, &canonical) != nil || canonical.Error != nil {
		return nil, 0
	}
	c := *call
	c.Output, c.Media = r.text(call, canonical), nil
	before := model.EstimateItem(call)
	if gain = before - model.EstimateItem(&c); gain < before/4 {
		return nil, 0
	}
	return &c, gain
}

// text returns a receipt: the summary, short values, and the files with the output.
func (r Receipts) text(call *responses.ToolCall, canonical tools.Result) string {
	var b strings.Builder
	b.WriteString(receiptHead)
	b.WriteString("\n")
	short := canonical.Compact(receiptBytes)
	b.WriteString(short.SummaryText)
	if len(short.Result) > 0 {
		b.WriteString("\n")
		b.Write(short.Result)
	}
	var known struct {
		Artifacts []tools.Artifact `json:"artifacts"`
	}
	_ = json.Unmarshal(canonical.Result, &known) // a result of another shape has no files
	for _, a := range known.Artifacts[:min(len(known.Artifacts), maxFiles)] {
		if path := r.locate(call.Output, a.Path); path != "" {
			b.WriteString("\nAll of it: " + path)
		}
	}
	return b.String()
}

// locate returns the absolute path of an artifact: as it was shown to the model, or
// in the running turn's directory. The path of an earlier turn's file that was not
// shown is unknown.
func (r Receipts) locate(shown, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	if end := strings.Index(shown, "/"+path); end >= 0 {
		from := strings.LastIndexAny(shown[:end], " \t\n\"'") + 1
		if abs := shown[from : end+1+len(path)]; filepath.IsAbs(abs) {
			return abs
		}
	}
	if r.Dir == "" || !filepath.IsLocal(path) {
		return ""
	}
	return filepath.Join(r.Dir, path)
}
