package ledgertest

import (
	"fmt"
	"testing"

	"holon/state/ledger"
)

// domain is the conduct of one domain of the ledger: what every domain must do with
// its records, and what only this one does.
type domain struct {
	name    string
	keep    func() kept
	missing func(ledger.View) []error // of reads of what is not there, which must not be found
	empty   func(ledger.View) []error // of searches that find nothing, which is no error
	unknown []update                  // of what is not there, or of no agent
	unique  []insert                  // one after another, into a store with the agents a and b
	cases   []conduct
}

// update writes in a transaction.
type update = func(ledger.Tx) error

// kept is a record of each noun of a domain with no field empty, of agent a: how it is
// written, replaced, and read in every way there is. replace is nil for what never
// changes.
type kept struct {
	insert, replace update
	check           func(*testing.T, ledger.View)
}

// insert is a row, and whether it must be refused because of those before it.
type insert struct {
	what     string
	write    update
	conflict bool
}

// conduct is one thing that a store must do.
type conduct struct {
	name string
	run  func(t *testing.T, open Reopener)
}

// all is the conduct of a domain.
func (d domain) all() []conduct {
	return append([]conduct{
		{"records are kept", d.testKept},
		{"what is not there is not found", d.testAbsent},
		{"what must be alone is", d.testUnique},
	}, d.cases...)
}

// testKept writes every field of every noun, reads it in the same transaction, from
// outside and from a store that was opened again, then does so once more with all
// that can be replaced.
func (d domain) testKept(t *testing.T, open Reopener) {
	s, k := open(t), d.keep()
	write(t, s, addAgent("a"))
	for _, change := range []update{k.insert, k.replace} {
		if change == nil {
			continue
		}
		write(t, s, func(tx ledger.Tx) error {
			must(t, change(tx))
			k.check(t, tx.View)
			return nil
		})
		look(t, s, func(v ledger.View) { k.check(t, v) })
		must(t, s.Close())
		s = open(t)
		look(t, s, func(v ledger.View) { k.check(t, v) })
	}
	must(t, s.Close())
}

func (d domain) testAbsent(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	look(t, s, func(v ledger.View) {
		if d.missing != nil {
			for _, err := range d.missing(v) {
				wantCode(t, err, ledger.CodeNotFound)
			}
		}
		if d.empty == nil {
			return
		}
		for i, err := range d.empty(v) {
			if err != nil {
				t.Errorf("search %d: %v", i, err)
			}
		}
	})
	for _, u := range d.unknown {
		wantCode(t, s.Update(t.Context(), u), ledger.CodeNotFound)
	}
}

func second[T any](_ T, err error) error { return err }

// absent is nil when a search found nothing.
func absent[T any](found T, ok bool, err error) error {
	if ok {
		return fmt.Errorf("found %v", found)
	}
	return err
}

func (d domain) testUnique(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	for _, c := range d.unique {
		switch err := s.Update(t.Context(), c.write); {
		case c.conflict && err == nil:
			t.Errorf("%s was taken", c.what)
		case c.conflict:
			wantCode(t, err, ledger.CodeConflict)
		case err != nil:
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
