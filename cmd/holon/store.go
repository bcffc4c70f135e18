package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/internal/durable"
	"holon/runner/agent"
	"holon/runner/control/wire"
	"holon/runner/credentials"
	"holon/runner/pool"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/ledger"
	"holon/state/store"
)

// storeProfile is the name under which holon keeps credentials of the bucket, as ID:SECRET.
const storeProfile = "store"

// agentFiles are the files of agents in a bucket, and the leases of the agents whose files are here.
type agentFiles struct {
	ledger.Leases
	*store.Files
	home       state.Home
	containers *pool.Pool
	claim      *sessions.Claim

	mu     sync.Mutex
	loaded map[string]bool // public agents
}

var _ agent.Files = (*agentFiles)(nil)

// openFiles opens the bucket of the files of agents, which has to be that of the ledger.
func (o *serveOptions) openFiles(ctx context.Context, leases ledger.Leases, ledgerID func(context.Context) (string,
	error), log *slog.Logger) (*agentFiles, error) {
	keys, err := o.storeKeys()
	if err != nil {
		return nil, err
	}
	bucket, err := store.OpenS3(o.Store, keys)
	if err != nil {
		return nil, err
	}
	id, err := ledgerID(ctx)
	if err != nil {
		return nil, err
	}
	if err := store.Bind(ctx, bucket, id); err != nil {
		return nil, err
	}
	notes := filepath.Join(o.home.Dir(), "store")
	f := &agentFiles{Leases: leases, home: o.home,
		claim:  &sessions.Claim{Ledger: id + " " + o.Store, Fence: leases.Fence}, // a copy of the ledger has its id, too
		loaded: map[string]bool{ledger.SessionsLease: true},
		Files: store.New(store.Options{Bucket: bucket, Notes: notes, Log: log, Now: time.Now,
			Fence: func(key string) int64 { return leases.Fence(leaseOf(key)) }})}
	return f, errors.Join(os.MkdirAll(notes, 0o700), durable.Sweep(notes))
}

// storeKeys are the credentials of the bucket: of the usual variables, which nothing that is started here gets, or
// those that holon keeps.
func (o *serveOptions) storeKeys() (keys store.Keys, err error) {
	for name, to := range map[string]*string{"AWS_ACCESS_KEY_ID": &keys.ID, "AWS_SECRET_ACCESS_KEY": &keys.Secret,
		"AWS_SESSION_TOKEN": &keys.Session} {
		*to = os.Getenv(name)
		_ = os.Unsetenv(name) // it never fails
	}
	if kept := credentials.StoreIn(o.home); keys.ID == "" {
		has, err := kept.Has(storeProfile)
		if err != nil || !has {
			return keys, err
		}
		text, err := kept.Get(storeProfile)
		if err != nil {
			return keys, err
		}
		keys.ID, keys.Secret, _ = strings.Cut(text.Reveal(), ":")
	}
	o.streams.Secrets.Add("secret key of the store", keys.Secret)
	o.streams.Secrets.Add("session token of the store", keys.Session)
	return keys, nil
}

// What of an agent's private directory is this host's own, or can be made again.
var (
	hostsOwn = []string{"workspaces", "objects", "anchors", "indexes", "children", "set-aside", state.SessionFile,
		"turns.ndjson", state.UsageFile, "egress.ndjson"}
	ofContainer = []string{"input", "skills", "etc", "config", "empty", "scenario.yaml"}
)

// unit is what is kept of an agent.
func (f *agentFiles) unit(agentID string) store.Unit {
	return store.Unit{Key: "agents/" + agentID, Dir: f.home.AgentDir(agentID), Private: ".holon",
		Skip: func(name string) bool {
			dir, base := path.Split(name)
			return dir == ".holon/" && ofHost(base) || dir == ".holon/session/" && slices.Contains(ofContainer, base)
		}}
}

// Held implements ledger.Leases: an agent whose files are not here is not run yet.
func (f *agentFiles) Held(agentID string) bool { return f.Leases.Held(agentID) && f.here(agentID) }

func (f *agentFiles) here(agentID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loaded[state.RootAgent(agentID)]
}

// Check implements ledger.Leases.
func (f *agentFiles) Check(ctx context.Context, agentID string) error {
	if err := f.Leases.Check(ctx, agentID); err != nil || f.here(agentID) {
		return err
	}
	return &state.Error{Code: wire.CodeNotReady, Param: "agent_id", Hint: "try again in a moment",
		Message: "the files of agent " + agentID + " are being loaded from the bucket"}
}

// Take implements ledger.Leases. Of those that are wanted it returns also what this process has and did not load.
func (f *agentFiles) Take(ctx context.Context, wanted []string) ([]string, error) {
	taken, err := f.Leases.Take(ctx, wanted)
	for _, id := range wanted {
		if f.Leases.Held(id) && !f.here(id) && !slices.Contains(taken, id) {
			taken = append(taken, id)
		}
	}
	return taken, err
}

// Give implements ledger.Leases. The files of an agent that is given up are loaded anew when it comes back.
func (f *agentFiles) Give(ctx context.Context, leave func(root string, give func() error) error) error {
	return f.Leases.Give(ctx, func(root string, give func() error) error {
		return leave(root, func() error {
			f.mu.Lock()
			was := f.loaded[root]
			delete(f.loaded, root)
			f.mu.Unlock()
			err := give()
			if err == nil && f.Leases.Held(root) { // it got something to do
				f.mu.Lock()
				f.loaded[root] = was
				f.mu.Unlock()
				return nil
			}
			f.Files.Leave(func(key string) bool { return state.RootAgent(leaseOf(key)) == root })
			return err
		})
	})
}

// Problem implements ledger.Leases: files that cannot be saved or loaded hold agents up, too.
func (f *agentFiles) Problem() error { return cmp.Or(f.Leases.Problem(), f.Files.Problem()) }

// Own implements agent.Files.
func (f *agentFiles) Own(ctx context.Context, root string) error {
	if err := f.Leases.Check(ctx, root); err != nil {
		return err
	}
	return f.Load(ctx, root, nil)
}

// Load implements agent.Files.
func (f *agentFiles) Load(ctx context.Context, root string, children []string) error {
	if f.here(root) {
		return nil
	}
	for _, id := range append([]string{root}, children...) {
		if err := f.Files.Load(ctx, f.unit(id), func(ctx context.Context) error {
			return f.containers.Discard(ctx, id)
		}); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded[root] = true
	return nil
}

// Save implements agent.Files.
func (f *agentFiles) Save(ctx context.Context, agentID string) error {
	return f.save(ctx, f.unit(agentID))
}

// save saves a unit. One that was made since the others of its lease were loaded has nothing to load.
func (f *agentFiles) save(ctx context.Context, u store.Unit) error {
	if err := f.Files.Load(ctx, u, func(context.Context) error { return nil }); err != nil {
		return err
	}
	return f.Files.Save(ctx, u)
}

// saveAll saves what this process has, before others take it.
func (f *agentFiles) saveAll(ctx context.Context, agents []ledger.Agent) error {
	var errs []error
	for _, a := range agents {
		if f.Held(a.ID) && a.ArchivedAt == nil {
			errs = append(errs, f.Save(ctx, a.ID))
		}
	}
	return errors.Join(errs...)
}

// openTurnFile opens a file of a turn: in the bucket, where another host runs the agent.
func (f *agentFiles) openTurnFile(agentID, turnID, name string) (*os.File, error) {
	if f.Held(agentID) || state.CheckAgentID(agentID) != nil {
		return f.containers.OpenTurnFile(agentID, turnID, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a reader that leaves costs no more
	defer cancel()
	return f.Open(ctx, "agents/"+agentID, path.Join(".holon/session/output/turns", turnID, name))
}

// keeping puts files into homes and saves them before a message names them: only there where the agent runs.
func (f *agentFiles) keeping(keep func(agentID, name string, content []byte, sent func(string) bool) (string,
	error)) func(agentID, name string, content []byte, sent func(string) bool) (string, error) {
	return func(agentID, name string, content []byte, sent func(string) bool) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // like what the message is about to wait for
		defer cancel()
		if err := f.Check(ctx, agentID); err != nil {
			return "", err
		}
		at, err := keep(agentID, name, content, sent)
		if err != nil {
			return at, err
		}
		return at, f.Save(ctx, agentID)
	}
}

// sweepEvery is how often objects are removed that are not needed any more.
const sweepEvery = 24 * time.Hour

// run removes old objects until ctx ends.
func (f *agentFiles) run(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := f.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.Warn("old objects of the bucket are not all removed", "err", err)
		}
	}
}
