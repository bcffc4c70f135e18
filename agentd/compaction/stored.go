package compaction

import (
	"encoding/json"
	"fmt"
	"slices"

	"holon/responses"
)

// typeStored is the type of the item that a compaction leaves in its conversation.
// Only agentd makes it: a request that brings an item of an unknown type of our own
// is refused, and none can refer to one.
const typeStored = "holon:context_compaction"

// summaryPlace stands in stored.Visible for the summary.
const summaryPlace = -1

// stored is a compaction as the conversation keeps it. Every later turn tells a
// model what it says and all items that follow it, so that nothing is summarised
// twice and one request is the beginning of the next. The conversation itself
// stays whole.
type stored struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Epoch   int    `json:"epoch"`             // compactions of the conversation so far, this one included
	Visible []int  `json:"told"`              // places in the conversation of what a model reads; -1 for the summary
	Short   []int  `json:"short,omitempty"`   // those of them that are calls of which a receipt is sent
	Bare    []int  `json:"bare,omitempty"`    // those of them that are sent without pictures and files, which were refused
	Summary string `json:"summary,omitempty"` // "" when no item was summarised so far

	// Scale is by how much the estimates of tokens were wrong; 0 is not known. The first
	// estimate after a restart has no other measure.
	Scale float64 `json:"scale,omitempty"`
}

// IsStored reports whether item is a compaction that its conversation keeps.
func IsStored(item responses.Item) bool { return item.ItemType() == typeStored }

// View is the part of a conversation that is sent to a model.
type View struct {
	Items   []responses.Item
	Places  []int        // of Items in the conversation, summaryPlace for the summary
	Short   map[int]bool // places of the calls of which a receipt is told
	Bare    map[int]bool // places of the items that are told without pictures and files
	Summary string       // "" for none
	Epoch   int          // compactions so far
	Scale   float64      // as in stored
}

// View returns what is sent to a model of a conversation without its lead: the rest
// of the latest compaction, and all items after it. A compaction that cannot be read
// is passed over: the items that it replaced are sent again.
func (r Receipts) View(conversation []responses.Item) View {
	t := View{Short: make(map[int]bool), Bare: make(map[int]bool)}
	next := 0
	for at := len(conversation) - 1; at >= 0; at-- {
		if s, ok := readStored(conversation[at], at); ok {
			t.begin(r, conversation, s)
			next = at + 1
			break
		}
	}
	for i, item := range conversation[next:] {
		if !IsStored(item) {
			t.Add(item, next+i)
		}
	}
	return t
}

// readStored returns the compaction that item is, if it is one, of n items.
func readStored(item responses.Item, n int) (s stored, ok bool) {
	opaque, ok := item.(*responses.OpaqueItem)
	if !ok || !IsStored(item) || json.Unmarshal(opaque.Raw, &s) != nil {
		return stored{}, false
	}
	return s, s.fits(n)
}

// fits reports whether s can be a compaction of n items: what it tells is some of them,
// in any order and each once, and the summary that it has.
func (s stored) fits(n int) bool {
	known := make(map[int]bool, len(s.Visible))
	for _, place := range s.Visible {
		if place < summaryPlace || place >= n || known[place] {
			return false
		}
		known[place] = true
	}
	return len(s.Visible) > 0 && s.Epoch > 0 && known[summaryPlace] == (s.Summary != "")
}

// begin takes up a compaction.
func (t *View) begin(r Receipts, conversation []responses.Item, s stored) {
	for _, place := range s.Short {
		t.Short[place] = true
	}
	for _, place := range s.Bare {
		t.Bare[place] = true
	}
	t.Epoch, t.Summary, t.Scale = s.Epoch, s.Summary, s.Scale
	for _, place := range s.Visible {
		if place == summaryPlace {
			t.Add(Message("", s.Summary), place)
			continue
		}
		told := conversation[place]
		if t.Bare[place] {
			told, _ = bare(told)
		}
		if call, ok := told.(*responses.ToolCall); ok && t.Short[place] {
			if short, _ := r.receipt(call); short != nil {
				told = short
			}
		}
		t.Add(told, place)
	}
}

// Add appends the item at a place of the conversation.
func (t *View) Add(item responses.Item, place int) {
	t.Items, t.Places = append(t.Items, item), append(t.Places, place)
}

// Shortened takes over items, which are those told with some calls replaced by receipts.
func (t *View) Shortened(items []responses.Item) {
	for i, item := range items {
		if item != t.Items[i] {
			t.Short[t.Places[i]] = true
		}
	}
	t.Items = items
}

// Summarized returns the view after t was split into parts and summarised; context comes before them.
func (t *View) Summarized(context []responses.Item, parts Parts, summary string) View {
	places := make(map[responses.Item]int, len(t.Items))
	for i, item := range t.Items {
		places[item] = t.Places[i]
	}
	next := View{Short: t.Short, Bare: t.Bare, Summary: summary, Epoch: t.Epoch}
	for _, item := range slices.Concat(context, parts.Kept) {
		next.Add(item, places[item])
	}
	next.Add(Message("", summary), summaryPlace)
	for _, item := range parts.After {
		next.Add(item, places[item])
	}
	return next
}

// Item returns the item that keeps the view in the conversation.
func (t *View) Item() (responses.Item, error) {
	s := stored{Type: typeStored, ID: responses.NewID(responses.PrefixCompaction), Epoch: t.Epoch, Visible: t.Places,
		Summary: t.Summary, Scale: t.Scale}
	for _, place := range t.Places {
		if t.Short[place] {
			s.Short = append(s.Short, place)
		}
		if t.Bare[place] {
			s.Bare = append(s.Bare, place)
		}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode a compaction: %w", err)
	}
	return &responses.OpaqueItem{Type: s.Type, ID: s.ID, Raw: raw}, nil
}
