package main

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/internal/durable"
	"holon/runner/conversation"
	"holon/runner/pool"
	"holon/state"
	"holon/state/ledger"
	"holon/state/store"
)

// sessionKeys begin the keys of units that are sessions of clients. All have one lease.
const sessionKeys = "sessions/"

// How long sessions may be loaded before this process is ready, and afterwards in one try, which goes on from there;
// and after how long what no process runs now does not come back to this one.
const (
	loadFirst      = 10 * time.Second
	loadWithin     = 10 * time.Minute
	elsewhereAfter = time.Minute
)

// sessionFiles are the files of the sessions of clients in the bucket of those of agents.
type sessionFiles struct {
	of         *agentFiles
	containers *pool.Pool
	log        *slog.Logger
}

var _ conversation.Files = sessionFiles{}

// leaseOf is the key of the lease of a unit.
func leaseOf(unit string) string {
	if strings.HasPrefix(unit, sessionKeys) {
		return ledger.SessionsLease
	}
	return path.Base(unit)
}

// unit is what is kept of a session.
func (f sessionFiles) unit(id string) store.Unit {
	return store.Unit{Key: sessionKeys + id, Dir: f.of.home.SessionDir(id), Private: ".", Skip: func(name string) bool {
		dir, base := path.Split(name)
		return conversation.OfHost(name) || dir == "" && ofHost(base) ||
			dir == "session/" && slices.Contains(ofContainer, base)
	}}
}

// ofHost reports whether a name next to agentd's files is that of something that is this host's own.
func ofHost(base string) bool {
	return slices.Contains(hostsOwn, base) || strings.HasPrefix(base, durable.TempPrefix)
}

// load brings all sessions here, before any is opened, by the process that has their lease. It may be repeated. left
// are those that alone cannot be loaded.
func (f sessionFiles) load(ctx context.Context) (left map[string]bool, err error) {
	keys, err := f.of.Units(ctx, sessionKeys)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	left = make(map[string]bool)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, key := range keys {
		if id := path.Base(key); state.CheckConversationID(id) == nil {
			group.Go(func() error {
				err := f.of.Files.Load(ctx, f.unit(id), func(ctx context.Context) error {
					return f.containers.Discard(ctx, id)
				})
				if !store.OfUnit(err) {
					return err
				}
				f.log.Error("a session cannot be loaded, and is left out until the next start", "session", id, "err", err)
				mu.Lock()
				defer mu.Unlock()
				left[id] = true
				return nil
			})
		}
	}
	return left, group.Wait()
}

// discard removes the containers that an earlier process left here of sessions that another host has.
func (f sessionFiles) discard(ctx context.Context) error {
	if f.of.Leases.Held(ledger.SessionsLease) {
		return nil
	}
	left, err := filepath.Glob(filepath.Join(f.of.home.SessionsDir(), "ses_*", state.SessionFile))
	for _, record := range left {
		err = errors.Join(err, f.containers.Discard(ctx, filepath.Base(filepath.Dir(record))))
	}
	return err
}

// Save implements conversation.Files. One that alone cannot be saved, as it is, is not tried again before it changes.
func (f sessionFiles) Save(ctx context.Context, id string) error {
	err := f.of.save(ctx, f.unit(id))
	if store.OfUnit(err) {
		f.log.Error("a session cannot be saved for other hosts", "session", id, "err", err)
		return nil
	}
	return err
}

// Remove implements conversation.Files.
func (f sessionFiles) Remove(ctx context.Context, id string) error {
	return f.of.Remove(ctx, sessionKeys+id)
}
