// Package ledgertest holds the conduct that every store of the ledger must show.
package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// Reopener opens the store of one test. Called again after Close, it opens what
// was there.
type Reopener func(t *testing.T) ledger.Store

// Run runs the suite. fresh returns the opener of a store that is empty.
func Run(t *testing.T, fresh func(t *testing.T) Reopener) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, open Reopener)
	}{
		{"records are kept", testRecords},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
}
