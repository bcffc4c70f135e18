package scheduler_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

func (w *world) state() ledger.AgentState { return get(w, ledger.View.AgentState, "alpha") }

func (w *world) entry(id string) ledger.Entry { return get(w, ledger.View.Entry, id) }

func (w *world) message(id string) ledger.Message { return get(w, ledger.View.Message, id) }

func (w *world) wait(id string) ledger.Wait { return get(w, ledger.View.Wait, id) }

func (w *world) events(after int64) (types []string, all []ledger.Event) {
	w.view(func(v ledger.View) error {
		page, err := v.Events("alpha", ledger.EventQuery{After: after, Limit: 1000})
		all = page.Events
		return err
	})
	for _, e := range all {
		types = append(types, record.Of(e).Name)
	}
	return types, all
}

// newest is the newest event of alpha with a type or a class.
func (w *world) newest(typ string) (e ledger.Event) {
	w.t.Helper()
	_, events := w.events(0)
	for _, found := range events {
		if record.Of(found).Name == typ || found.Class == typ {
			e = found
		}
	}
	if e.ID == "" {
		w.t.Fatalf("there is no event %s", typ)
	}
	return e
}

// count is how many events of a type or a class alpha has.
func (w *world) count(typ string) (n int) {
	_, events := w.events(0)
	for _, e := range events {
		if record.Of(e).Name == typ || e.Class == typ {
			n++
		}
	}
	return n
}

// briefed looks for the kinds of all briefs of alpha, and returns the text of the last one.
func (w *world) briefed(kinds ...ledger.BriefKind) (text string) {
	w.t.Helper()
	var got []ledger.BriefKind
	w.view(func(v ledger.View) error {
		briefs, err := v.Briefs("alpha", 100)
		for _, b := range briefs {
			got, text = append(got, b.Kind), b.Text
		}
		return err
	})
	if !slices.Equal(got, kinds) {
		w.t.Fatalf("briefs %v, want %v", got, kinds)
	}
	return text
}

// contains fails the test unless a text has the words.
func contains(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s is %q, want %q in it", what, text, word)
		}
	}
}

// ok ends the test unless a call went well, whatever else it returns.
func (w *world) ok(results ...any) {
	w.t.Helper()
	if err, _ := results[len(results)-1].(error); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// refused ends the test unless a call fails with a code, and with a hint that has the words.
func (w *world) refused(want state.Code, hint ...string) func(results ...any) {
	return func(results ...any) {
		w.t.Helper()
		err, _ := results[len(results)-1].(error)
		if !state.IsCode(err, want) {
			w.t.Fatalf("%v, want %s", err, want)
		}
		for _, words := range hint {
			if e, ok := errors.AsType[*state.Error](err); !ok || !strings.Contains(e.Hint, words) {
				w.t.Fatalf("%+v does not have the hint %q", err, words)
			}
		}
	}
}

// invalid fails the test unless a call is refused for a field.
func (w *world) invalid(what string, code state.Code, param string) func(results ...any) {
	return func(results ...any) {
		w.t.Helper()
		err, _ := results[len(results)-1].(error)
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != code || e.Param != param {
			w.t.Errorf("%s: %v, want %s of %s", what, err, code, param)
		}
	}
}
