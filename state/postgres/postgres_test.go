package postgres

import (
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/ledgertest"
	"holon/test/postgrestest"
)

func openAt(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: url})
	expect.NoError(t, err)
	return s
}

// TestStore uses one server for all that leaves it running: a store there has the conduct of a ledger, and what is
// PostgreSQL's own.
func TestStore(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	for name, test := range map[string]func(*testing.T, *postgrestest.Server){
		"stores share a ledger":                   testShared,
		"agents are given up":                     testGiven,
		"a problem is shown":                      testProblem,
		"a lease that is lost":                    testLost,
		"a process that is silent":                testSilent,
		"clocks are an hour apart":                testClocks,
		"a process that has ended":                testEnded,
		"another home":                            testOtherHome,
		"a restored database":                     testRestored,
		"another database is another epoch":       testEpoch,
		"statements are bounded":                  testBounds,
		"another session has a lock":              testLocked,
		"opening refuses":                         testOpenRefuses,
		"statements are understood":               testStatements,
		"a commit without an answer is looked up": testLostAnswer,
		"what is read together is one batch":      testTogether,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server)
		})
	}
	ledgertest.Run(t, func(t *testing.T) ledgertest.Reopener {
		url := server.Database(t)
		return func(t *testing.T) ledger.Store {
			s, err := Open(t.Context(), Options{URL: url, unattended: true})
			expect.NoError(t, err)
			return s
		}
	})
}
