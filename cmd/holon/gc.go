package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holon/runner/oneshot"
	"holon/state"
)

type gcOptions struct {
	dryRun, force bool
	orphanAge     time.Duration
	keepRuns      int
	olderThan     time.Duration
}

func newGCCommand(streams Streams) *cobra.Command {
	o := &gcOptions{orphanAge: oneshot.DefaultOrphanAge, keepRuns: -1, olderThan: -1}
	cmd := lifecycleCommand(streams, "gc", "Settle the runs of killed holons and remove what no run owns",
		func(ctx context.Context, l *lifecycle) error { return runGC(ctx, l, o) })
	cmd.Long = `Settle the runs whose holon was killed, and remove containers, sockets, working
trees and temporary files that belong to no run. The work of a run is never
removed before its change is saved among its results.

A run whose container still works is left to holon attach until its holon has
been dead for an hour. Ended runs are kept, unless you say otherwise. Any number
of gcs and runs can go on at the same time.`
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&o.force, "force", false, "end runs whose container still works, too; their work is saved")
	timeVar(f, &o.orphanAge, "orphan-age", "`time` for which such a run is left alone")
	f.Func("keep-runs", "remove all ended runs but the newest `N` (default: keep all)", func(text string) (err error) {
		if o.keepRuns, err = strconv.Atoi(text); err != nil || o.keepRuns < 0 {
			err = errors.New("write a number, 0 or more")
		}
		return err
	})
	timeVar(f, &o.olderThan, "older-than", "remove runs that ended longer ago than this `time`, such as 30d "+
		"(default: keep all)")
	return cmd
}

func runGC(ctx context.Context, l *lifecycle, o *gcOptions) error {
	c := &oneshot.Collector{Recovery: l.recovery(), OrphanAge: o.orphanAge, Force: o.force, KeepRuns: o.keepRuns,
		KeepFor: o.olderThan, DryRun: o.dryRun, Now: time.Now()}
	found, err := c.Collect(ctx)
	if err == nil && o.dryRun {
		found, err = keptOfChildren(l.home, found)
	}
	if err != nil {
		return err
	}
	failed := false
	for _, f := range found {
		failed = failed || f.Error != ""
	}
	if found == nil {
		found = []oneshot.Finding{}
	}
	err = l.show(found, nil, func() error { return l.showFindings(found, o.dryRun) })
	if failed {
		return errors.Join(err, exitError(1))
	}
	return err
}

// keptOfChildren adds which homes and trees belong to the private children of agents, which nothing removes by itself.
func keptOfChildren(home state.Home, found []oneshot.Finding) ([]oneshot.Finding, error) {
	ids, err := home.AgentIDs()
	for _, id := range ids {
		if !state.IsChild(id) {
			continue
		}
		why := "of a child in the tree of agent " + state.RootAgent(id)
		found = append(found, oneshot.Finding{Kind: "home", Do: "keep", What: id, Why: why, Kept: true})
		trees, failed := os.ReadDir(filepath.Join(home.AgentPrivateDir(id), "workspaces"))
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
		for _, tree := range trees {
			found = append(found, oneshot.Finding{Kind: "tree", Do: "keep", What: tree.Name(), Why: why + ", " + id, Kept: true})
		}
	}
	return found, err
}

func (l *lifecycle) showFindings(found []oneshot.Finding, dryRun bool) error {
	if len(found) == 0 {
		fmt.Fprintln(l.streams.Err, "nothing to do")
		return nil
	}
	return printTable(l.streams, found, nil, func(f oneshot.Finding) []string {
		verb, why := f.Do, f.Why
		switch {
		case f.Error != "":
			verb, why = "failed to "+f.Do, f.Error
		case f.Kept:
			verb = "kept"
		case dryRun:
			verb = "would " + f.Do
		case f.Do == "free":
			verb = "freed"
		default:
			verb += "d" // settled, removed
		}
		return []string{verb, f.Kind, f.What, why}
	})
}
