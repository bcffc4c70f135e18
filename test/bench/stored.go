package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"holon/test/longlived"
)

// measureStored is the last of P14: what a message of a short conversation with an agent leaves on the disk, with
// every fact of its turn.
func measureStored(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	a, err := r.wakeAgent(ctx)
	if err != nil {
		return nil, err
	}
	ledger, files, err := stored(ctx, a.serve, a.name)
	if err != nil {
		return nil, err
	}
	n := r.samples(100, 20)
	for range n {
		if _, err := a.ask(ctx); err != nil {
			return nil, err
		}
	}
	ledgerAfter, filesAfter, err := stored(ctx, a.serve, a.name)
	if err != nil {
		return nil, err
	}
	each := func(what string, bytes int64) row {
		return row{ID: "P14", What: what, Against: "nothing", Unit: unitKB, Ours: float64(bytes) / 1e3 / float64(n)}
	}
	return []row{
		each("a message of a short conversation, in the ledger", ledgerAfter-ledger).absoluteGoal(24),
		each("the same, in the directory of its turn", filesAfter-files),
	}, nil
}

// stored is what a ledger has, without its free pages, and what the directories of an agent's turns have, in bytes.
func stored(ctx context.Context, s *longlived.Server, agent string) (ledger, files int64, err error) {
	db, err := sql.Open("sqlite", "file:"+s.Ledger()+"?mode=ro")
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, "+
		"pragma_freelist_count, pragma_page_size").Scan(&ledger)
	if err != nil {
		return 0, 0, fmt.Errorf("measure the ledger: %w", err)
	}
	turns := filepath.Join(s.Home, "agents", agent, ".holon", "session", "output", "turns")
	err = filepath.WalkDir(turns, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files += info.Size()
		}
		return err
	})
	return ledger, files, err
}
