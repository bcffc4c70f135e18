package scheduler_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// TestRecordTellsTheTables tries everything that happens to agents, with crashes at every boundary. After each crash
// and at the end the fold of the record says what the tables say, and later events change nothing of what it said.
func TestRecordTellsTheTables(t *testing.T) {
	var r *replayed
	kinds := often + workOps + taskOps + recordedOps + "rec-broken broken broken lose lose crash lose-all"
	played(t, kinds, func(w *world) {
		r = replay(w)
		w.restarted = r.compare
	}, func(w *world) {
		w.drain()
		r.compare()
		r.again()
	})
}

// replay folds the records of the agents of a world from their beginning.
func replay(w *world) *replayed {
	r := &replayed{world: w, agents: map[string]*cuts{}}
	r.compare()
	return r
}

// replayed is the records of the agents of a world, folded as they grow.
type replayed struct {
	*world
	agents map[string]*cuts
}

// cuts is the record of an agent at each comparison.
type cuts struct {
	fold   *record.Fold
	models map[int64]map[string][32]byte // digests of the models by the last event then
	known  map[string]bool               // ids of events
}

var testLog = record.Log{RuntimeID: "rt_test"}

// compare compares the fold of each record with the tables.
func (r *replayed) compare() {
	err := r.store.Store.View(r.ctx, func(v ledger.View) error {
		for _, id := range agents {
			c := r.agents[id]
			if c == nil {
				c = &cuts{record.New(id), map[int64]map[string][32]byte{}, map[string]bool{}}
				r.agents[id] = c
			}
			if err := r.compareAgent(v, id, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatalf("read the ledger: %v", err)
	}
}

func (r *replayed) compareAgent(v ledger.View, id string, c *cuts) error {
	page, err := v.Events(id, ledger.EventQuery{After: c.fold.Through(), Limit: 100_000})
	if err != nil {
		return err
	}
	for _, e := range page.Events {
		event := record.RuntimeEvent(e, testLog)
		c.fold.Apply(&event)
		caused := record.Of(e).Name == record.TurnContextBuilt || record.Of(e).Name == record.ContinuationResolved
		cause := event.Correlation.CausationID
		caused = caused || strings.HasPrefix(cause, responses.PrefixEvent)
		if caused && !c.known[cause] {
			r.t.Fatalf("%s: event %d, %s, has the cause %q, want an earlier event", id, e.Seq, record.Of(e).Name, cause)
		}
		c.known[e.ID] = true
	}
	c.models[c.fold.Through()] = r.digests(c.fold)
	if model, _ := c.fold.Model("thread_read_model"); c.fold.Through() > 0 {
		record := folded(model.(record.ThreadReadModel), c.fold)
		tables, err := kept(v, id, record)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(tables, record); diff != "" {
			r.t.Fatalf("%s: after event %d the record tells of another state than the tables (-tables +record):\n%s",
				id, c.fold.Through(), diff)
		}
	}
	return nil
}

// again folds each record from its beginning, as it is at the end, and wants what it was at each commit.
func (r *replayed) again() {
	r.view(func(v ledger.View) error {
		for _, id := range agents {
			page, err := v.Events(id, ledger.EventQuery{Limit: 100_000})
			if err != nil {
				return err
			}
			fold := record.New(id)
			for _, e := range page.Events {
				event := record.RuntimeEvent(e, testLog)
				fold.Apply(&event)
				then, cut := r.agents[id].models[e.Seq]
				if diff := cmp.Diff(then, r.digests(fold)); cut && diff != "" {
					r.t.Fatalf("%s: the models at event %d are others than they were (-then +now):\n%s",
						id, e.Seq, diff)
				}
			}
		}
		return nil
	})
}

func (r *replayed) digests(fold *record.Fold) map[string][32]byte {
	all := map[string][32]byte{}
	for _, name := range record.Names() {
		model, _ := fold.Model(name)
		text, err := json.Marshal(model)
		if err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
		all[name] = sha256.Sum256(text)
	}
	return all
}

// picture is what both the record and the tables say of an agent. Everything that has an id is by it.
type picture struct {
	Kind, Template, Created   string
	Status, Phase, ActiveTurn string
	Outcome, Waiting, Posture string
	Signal, Continuation      string
	Model, Effort             string
	LastFailure, Container    string
	Input, Output             int64 // tokens of all turns
	Queue, Briefs             []string
	Back                      map[string]bool // messages that wait again
	Turns, Waits, Open        map[string]string
	Channels, Work, Commands  map[string]string
}

// newPicture is a picture without anything that has an id.
func newPicture() picture {
	made := func() map[string]string { return map[string]string{} }
	return picture{Back: map[string]bool{}, Turns: made(), Waits: made(), Open: made(),
		Channels: made(), Work: made(), Commands: made()}
}

// text is a record as the record of an agent has it; "" for none.
func text(of any) string {
	raw, err := json.Marshal(of)
	var fields any
	if err != nil || json.Unmarshal(raw, &fields) != nil || fields == nil {
		return ""
	}
	raw, _ = json.Marshal(fields) // with its keys in order
	return string(raw)
}

// line is some facts as text.
func line(facts ...any) string {
	var words []string
	for _, f := range facts {
		switch at := f.(type) {
		case time.Time:
			f = turns.At(at)
		case *time.Time:
			if f = ""; at != nil {
				f = turns.At(*at)
			}
		case string: // a time may lack the zeros at its end
			if when, err := time.Parse(time.RFC3339Nano, at); err == nil {
				f = turns.At(when)
			}
		}
		words = append(words, fmt.Sprint(f))
	}
	return strings.Join(words, " | ")
}
