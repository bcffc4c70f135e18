// Package ledgertest holds the conduct that every store of the ledger must show.
//
// Run needs a store that is kept by what Reopener opens again; the tests know
// nothing else of it.
package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// Reopener opens the store of one test. Called again after Close, it opens what
// was there.
type Reopener func(t *testing.T) ledger.Store

type conduct struct {
	name string
	run  func(t *testing.T, open Reopener)
}

type update = func(ledger.Tx) error

// Run runs the suite. fresh returns the opener of a store that is empty. All parts run side by side, and end with t.
func Run(t *testing.T, fresh func(t *testing.T) Reopener) {
	for _, c := range []conduct{
		{"records are kept", testKept},
		{"what is not there is not found", testAbsent},
		{"what must be alone is", testUnique},
		{"states have one next step", testRevision},
		{"the queue has an order", testQueue},
		{"agents with work", testReady},
		{"open tasks stay", testPruneTasks},
		{"what is due", testDue},
		{"events have no gap", testNumbers},
		{"pages of events", testPages},
		{"what is gone is recorded for as long as messages", testPruneOutputs},
		{"lists end with the newest", testTails},
		{"an update is whole or nothing", testAtomic},
		{"a panic takes its update with it", testPanic},
		{"waiting misses nothing", testChanged},
		{"a view is one snapshot", testSnapshot},
		{"many at once", testCrowd},
		{"contexts", testContexts},
		{"waiting ends", testWaiting},
		{"closing", testClose},
		{"retention of events", testPruneEvents},
		{"retention of messages", testPruneMessages},
		{"retention spares what is needed", testPruneSpares},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, fresh(t))
		})
	}
}
