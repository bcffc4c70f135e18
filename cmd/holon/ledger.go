package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/state"
	"holon/state/ledger"
	"holon/state/postgres"
	"holon/state/sqlite"
)

// openLedger opens the ledger: that of the home, or the one in a database, which others of this home may share, or of
// this store, each with a home of its own.
func (o *serveOptions) openLedger(ctx context.Context, log *slog.Logger) (ledger.Store, ledger.Leases, error) {
	path := o.home.LedgerPath()
	switch {
	case o.Store != "" && o.Ledger == "":
		return nil, nil, usage("--store", "a bucket is of use to hosts that share a ledger", "give --ledger, too")
	case o.Ledger == "":
		store, err := sqlite.Open(ctx, sqlite.Options{Path: path, Log: log})
		return store, ledger.Alone{}, err
	}
	o.streams.Secrets.Add("password of the ledger", postgres.Password(o.Ledger))
	share, files := sqlite.Share, o.home.Dir()
	if o.Store != "" {
		share, files = sqlite.Lock, o.Store
	}
	lock, err := share(path)
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.Open(ctx, postgres.Options{URL: o.Ledger, Log: log, Home: files, Address: o.Socket})
	if err != nil {
		if e, ok := errors.AsType[*state.Error](err); ok {
			e.Param = "ledger"
		}
		return nil, nil, errors.Join(err, lock.Close())
	}
	_ = os.Unsetenv("PGPASSWORD") // what is started here does not get it; it never fails
	return lockedLedger{store, lock}, store, nil
}

// lockedLedger is a ledger with the lock of the home.
type lockedLedger struct {
	*postgres.Store
	lock io.Closer
}

// Close closes the ledger first.
func (l lockedLedger) Close() error { return errors.Join(l.Store.Close(), l.lock.Close()) }

func newDaemonBackupCommand(streams Streams) *cobra.Command {
	return ledgerCommand(streams, "backup FILE",
		"Copy the ledger of the agents into a file, also while the daemon runs",
		`Copy the ledger of the agents, with their queues, turns and events, into a new file,
as it is at one moment. The daemon may run; it is not held up. The homes of the
agents are directories below agents in HOLON_HOME, and are copied like any.

holon daemon restore puts it back.`,
		func(ctx context.Context, ledger, file string) (string, error) {
			return file, sqlite.Backup(ctx, ledger, file)
		})
}

func newDaemonRestoreCommand(streams Streams) *cobra.Command {
	replace := false
	cmd := ledgerCommand(streams, "restore FILE", "Make the ledger of the agents anew from a backup",
		`Make the ledger of the agents from a backup. Stop the daemon first. A ledger that is
there is in the way; with --replace it is moved aside, whole, and named. Clients that
follow events begin anew, since the numbers that they know are of another history.`,
		func(ctx context.Context, ledger, file string) (string, error) {
			aside, err := sqlite.Restore(ctx, file, ledger, replace)
			if aside != "" {
				streams.say("holon: the ledger that was there is " + visible.OneLine(aside, 4096))
			}
			return ledger, err
		})
	cmd.Flags().BoolVar(&replace, "replace", false, "move a ledger that is there aside")
	return cmd
}

// ledgerCommand makes a command about the ledger of a home and another file. do returns the file that it made.
func ledgerCommand(streams Streams, use, short, long string,
	do func(ctx context.Context, ledger, file string) (string, error)) *cobra.Command {
	cmd := lifecycleCommand(streams, use, short, func(ctx context.Context, l *lifecycle) error {
		file, err := filepath.Abs(l.args[0])
		if err != nil {
			return usage("FILE", err.Error(), "give an absolute path")
		}
		path, err := l.host.ledgerFile(l.home)
		if err == nil {
			path, err = do(ctx, path, file)
		}
		return l.show(struct {
			File string `json:"file"`
		}{path}, err, func() error {
			_, err := fmt.Fprintln(streams.Out, visible.OneLine(path, 4096))
			return err
		})
	})
	cmd.Long = long
	return cmd
}

// ledgerFile is the file with the ledger of a home. A ledger in a database has none.
func (h *host) ledgerFile(home state.Home) (string, error) {
	loaded := h.load(home, "")
	if err := loaded.Err(); err != nil {
		return "", err
	}
	if loaded.Ledger == "" {
		return home.LedgerPath(), nil
	}
	return "", &state.Error{Code: ledger.CodeLedgerURL, Param: "ledger",
		Message: "the ledger is in a PostgreSQL database, and not in a file",
		Hint:    "copy the database with pg_dump, and restore it with pg_restore while no holon serve runs"}
}
