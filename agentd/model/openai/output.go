package openai

import "encoding/json"

// output takes the items of a complete answer: it ends those that are still open, and adds those that a server sends
// only here. Servers leave some out, or list them in another order, so a place in the list says little. A thought that
// was not streamed with the rest is left out: what it led to was told already.
func (a *assembly) output(list []json.RawMessage) error {
	found := make([]int, len(list)) // by place in the list, the item's index plus one
	wires := make([]*wireItem, len(list))
	for i, raw := range list {
		if kindOfItem(raw) == 0 {
			continue
		}
		w, err := decodeItem(i, raw)
		if err != nil {
			return err
		}
		wires[i] = w
	}
	for _, same := range []func(was, is *wireItem) bool{sameID, sameCall, anyItem} {
		for i, w := range wires {
			if w != nil && found[i] == 0 {
				found[i] = a.find(kindOfItem(list[i]), w, same) + 1
			}
		}
	}
	streamed := len(a.begun) > 0
	for i, raw := range list {
		if wires[i] == nil || found[i] == 0 && streamed && kindOfItem(raw) == reasoning {
			continue
		}
		index := found[i] - 1
		if index < 0 {
			index = a.unused()
		}
		if err := a.ended(index, raw); err != nil {
			return err
		}
	}
	return nil
}

func sameID(was, is *wireItem) bool   { return is.ID != "" && was.ID == is.ID }
func sameCall(was, is *wireItem) bool { return is.CallID != "" && was.CallID == is.CallID }
func anyItem(_, _ *wireItem) bool     { return true } // for servers that name nothing, or anew in each event

// find returns the index of the first item of a kind that is like w and not listed yet, -1 for none.
func (a *assembly) find(kind itemKind, w *wireItem, same func(was, is *wireItem) bool) int {
	for _, it := range a.begun {
		if it.kind == kind && !it.listed && same(it.wire, w) {
			it.listed = true
			return it.index
		}
	}
	return -1
}

// unused returns an index that no item has.
func (a *assembly) unused() int {
	n := len(a.items)
	for {
		if _, used := a.items[n]; !used {
			return n
		}
		n++
	}
}
