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

// Run runs the suite. fresh returns the opener of a store that is empty.
func Run(t *testing.T, fresh func(t *testing.T) Reopener) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, open Reopener)
	}{
		{"records are kept", testRecords},
		{"what is not there is not found", testAbsent},
		{"what must be alone is", testUnique},
		{"an update is whole or nothing", testAtomic},
		{"a failed update leaves others alone", testAlone},
		{"a panic takes its update with it", testPanic},
		{"lanes have one next step", testRevision},
		{"events have no gap", testNumbers},
		{"pages of events", testPages},
		{"the queue has an order", testQueue},
		{"who sent it", testSenders},
		{"who has work", testReady},
		{"what is due", testDue},
		{"lists end with the newest", testTails},
		{"waiting misses nothing", testChanged},
		{"a view is one snapshot", testSnapshot},
		{"many at once", testCrowd},
		{"contexts", testContexts},
		{"closing", testClose},
		{"retention of events", testPruneEvents},
		{"retention of messages", testPruneMessages},
		{"retention spares what is needed", testPruneSpares},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
}
