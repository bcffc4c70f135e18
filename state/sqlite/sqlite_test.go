package sqlite_test

import (
	"path/filepath"
	"testing"

	"holon/state/ledger"
	"holon/state/ledger/ledgertest"
	"holon/state/sqlite"
)

func TestStore(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Reopener {
		path := filepath.Join(t.TempDir(), "ledger.db")
		return func(t *testing.T) ledger.Store {
			t.Helper()
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}
