package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/test/torture/check"
)

// checkRecords holds the record of every agent and the facts of every turn below a directory to the rules of the Agent
// Runtime standard at level C. Nothing may write there any more.
func checkRecords(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !d.Type().IsRegular():
			return err
		case d.Name() == "ledger.db":
			return checkLedger(path)
		case d.Name() == turns.RuntimeFile:
			return checkFacts(t, path)
		}
		return nil
	})
	if err != nil {
		t.Errorf("the records below the script's directory: %v", err)
	}
}

func checkLedger(path string) error {
	l, err := check.OpenLedger(path)
	if err != nil {
		return err
	}
	return errors.Join(l.Recorded(context.Background()), l.Close())
}

// checkFacts reads the facts of one turn, which is a part of its thread.
func checkFacts(t *testing.T, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	v := agentruntime.NewValidator(agentruntime.LevelC, func(found agentruntime.Violation) {
		t.Errorf("%s:%d breaks %s: %s instead of %s", found.File, found.Line, found.Rule, found.Got, found.Want)
	})
	v.Partial()
	return v.Read(path, f)
}
