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

// Run runs the suite: that of each domain, then what holds for all of them. fresh
// returns the opener of a store that is empty. All parts run side by side, and end with t.
func Run(t *testing.T, fresh func(t *testing.T) Reopener) {
	for _, d := range []domain{agents(), queue(), attempts(), waits(), work(), tasks(), timers(), triggers(), texts(),
		outputs(), commands(), events()} {
		t.Run(d.name, func(t *testing.T) { run(t, fresh, d.all()) })
	}
	run(t, fresh, []conduct{
		{"lists end with the newest", testTails},
		{"an update is whole or nothing", testAtomic},
		{"a failed update leaves others alone", testAlone},
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
	})
}

func run(t *testing.T, fresh func(t *testing.T) Reopener, list []conduct) {
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, fresh(t))
		})
	}
}
