package conversation

import (
	"slices"

	"holon/responses"
	"holon/responses/turns"
	"holon/state"
)

// folded is a log as far as it was read.
type folded struct {
	responses []string
	known     map[string]kind
	going     []string          // turns without an end
	asked     map[string]string // what they are asked, until agentd has accepted them
	turns     int               // that began and ended
	failed    int               // that never began
	account   state.Account     // of all turns
	last      turns.Time        // newest line
	lastTurn  state.TurnRef

	made    map[string]*Turn // by response
	current string           // Session.Current
	tree    string           // turn that left the tree as it was last, or markStart
	lost    turns.Time       // when the session went on without its tree; zero: never
	rewound bool             // no turn was accepted since the session went back
	newest  string           // turn that was asked for
	rewinds int              // since then
}

func newFolded(created turns.Time) folded {
	return folded{known: make(map[string]kind), asked: make(map[string]string), last: created,
		made: make(map[string]*Turn), tree: markStart}
}

// take adds a line, and reports whether the id is new to the index.
func (f *folded) take(l line) (added bool) {
	if l.TreeLost { // the session is not used by that
		f.tree, f.lost = markStart, l.At
		return false
	}
	f.last = l.At
	switch {
	case l.Response != "":
		f.responses = append(f.responses, l.Response)
		f.lastTurn = state.TurnRef{TurnID: l.Turn, ResponseID: l.Response}
		before := f.current
		if t := f.made[l.Response]; t != nil { // files that a container wrote may have it twice
			before = t.before
		}
		f.made[l.Response] = &Turn{TurnID: l.Turn, ResponseID: l.Response, PreviousResponseID: before,
			CreatedAt: l.At, Status: responses.StatusInProgress, Input: f.asked[l.Turn], mark: l.Turn, before: before}
		f.current, f.rewound = l.Response, false
		delete(f.asked, l.Turn)
	case l.Turn != "":
		f.going = append(f.going, l.Turn)
		f.asked[l.Turn] = l.Input
		f.newest, f.rewinds = l.Turn, 0
	case l.Deleted != "":
		f.responses = slices.DeleteFunc(f.responses, func(id string) bool { return id == l.Deleted })
		if t := f.made[l.Deleted]; t != nil {
			t.unstored = true
			f.current = f.continuable(f.current)
		}
		return false
	case l.Rewound != nil:
		f.rewind(*l.Rewound)
		return false
	case l.Ended != "":
		f.end(l)
		f.going = slices.DeleteFunc(f.going, func(id string) bool { return id == l.Ended })
		delete(f.asked, l.Ended)
		if l.Begun {
			f.turns++
		} else { // its id names nothing
			f.failed++
			delete(f.known, l.Ended)
		}
		if l.Account != nil {
			f.account = sum(f.account, *l.Account)
		}
		return false
	}
	id, of := l.id()
	if added = f.known[id] == 0 && len(f.known) < maxIDs; added {
		f.known[id] = of
	}
	return added
}

// end is what a line adds to the turn that ended.
func (f *folded) end(l line) {
	if !l.Begun {
		return
	}
	mark := f.mark()
	f.tree = l.Ended
	if t := f.turn(l.Ended); t != nil {
		t.Status, t.Text, t.unstored = l.Status, l.Text, l.Unstored
		if l.Previous != "" || l.Status != responses.StatusFailed { // else the response may be lost, and what it continued
			t.PreviousResponseID = l.Previous
		}
		if l.Idle {
			t.mark = mark
		}
		f.current = f.continuable(f.current)
	}
}

// rewind is what going back changes: the tree that is left gets a mark of its own.
func (f *folded) rewind(r rewound) {
	f.current, f.rewound, f.rewinds = f.continuable(r.Response), true, f.rewinds+1
	if !r.Tree {
		return
	}
	left, to := f.turn(f.tree), f.made[r.Response]
	if left != nil && left != to {
		left.mark = left.TurnID
	}
	if f.tree = markStart; to != nil {
		f.tree = to.TurnID
	}
}

// turn is a turn that agentd has accepted, nil for none.
func (f *folded) turn(id string) *Turn {
	for _, response := range slices.Backward(f.responses) {
		if t := f.made[response]; t.TurnID == id {
			return t
		}
	}
	return nil
}

// mark is the mark of what the tree was last, which may not have been made.
func (f *folded) mark() string {
	if t := f.turn(f.tree); t != nil {
		return t.mark
	}
	return f.tree
}

// continuable is a response, or the newest one before it that a turn can continue; "" for none.
func (f *folded) continuable(id string) string {
	for t := f.made[id]; t != nil && t.discontinued(); t = f.made[id] {
		id = t.before
	}
	return id
}

// of adds to the end of a turn what its response says. A turn without a final response has failed.
func (l line) of(resp *responses.Response) line {
	l.Status = responses.StatusFailed
	if resp == nil {
		return l
	}
	if resp.Status.Terminal() {
		l.Status = resp.Status
	}
	l.Text, l.Unstored = preview(resp.OutputText()), !resp.Store
	if resp.PreviousResponseID != nil {
		l.Previous = *resp.PreviousResponseID
	}
	return l
}

// sum adds what a turn took of models.
func sum(a, b state.Account) state.Account {
	u, v := &a.Usage, b.Usage
	u.Requests, u.Estimated, u.Unpriced = u.Requests+v.Requests, u.Estimated+v.Estimated, u.Unpriced+v.Unpriced
	u.Input, u.CacheRead, u.CacheWrite = u.Input+v.Input, u.CacheRead+v.CacheRead, u.CacheWrite+v.CacheWrite
	u.Output, u.Reasoning = u.Output+v.Output, u.Reasoning+v.Reasoning
	u.Total, u.Cost = u.Total+v.Total, u.Cost+v.Cost
	return a
}
