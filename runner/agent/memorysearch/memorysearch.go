// Package memorysearch searches what agents remember (runtime specification, "Memory
// Search Index").
//
//	ledger, files of the home ─▶ feed ─▶ recall.Index ─▶ Search, Get
//
// The ledger and the two Markdown files are the truth. Before each answer the index of
// the agent is fed with what changed since it was fed last, so nothing has to mark it
// when a record is written, and an index that is lost is made again by the next search.
// Known secrets are taken out before anything enters an index. One that becomes known
// later is, too: the next search makes the index anew.
//
// Searches of one agent run one after another.
package memorysearch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holon/internal/redact"
	"holon/internal/roots"
	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
	"holon/state/recall"
)

// files reads texts in the homes of agents: *home.Homes.
type files interface {
	// Text returns a file of an agent's home and when it changed. One that can't be read, for whatever reason, has an
	// error.
	Text(agentID, name string) (text string, changed time.Time, err error)
}

// Options of a Service. Ledger, Files, Dir, Key and Log are required.
type Options struct {
	Ledger  ledger.Store
	Files   files
	Dir     func(agentID string) string // of what the host keeps in an agent's home, which its container cannot see
	Key     []byte                      // from which refs follow
	Secrets *redact.Set                 // nil: none are known
	Now     func() time.Time            // nil: time.Now
	Log     *slog.Logger
}

// Service searches. All methods are safe for concurrent use.
type Service struct {
	opts Options

	mu    sync.Mutex
	locks map[string]*sync.Mutex // by agent
}

// New returns a Service. It touches nothing.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{opts: o, locks: make(map[string]*sync.Mutex)}
}

// CodeInvalidQuery is of a query without a text.
const CodeInvalidQuery = recall.CodeInvalidQuery

// Search returns what of an agent's memory fits a query best. Errors: CodeInvalidQuery with the field, and
// ledger.CodeNotFound of an agent that does not exist.
func (s *Service) Search(ctx context.Context, agentID string, q view.MemoryQuery) (view.MemoryResults, error) {
	out := view.MemoryResults{Results: []view.MemoryResult{}}
	if q.Limit < 0 || q.Limit > view.MaxMemories {
		return out, &state.Error{Code: CodeInvalidQuery, Param: "limit", Hint: "leave it out",
			Message: fmt.Sprintf("%d is not a number from 1 to %d", q.Limit, view.MaxMemories)}
	}
	q.Limit = cmp.Or(q.Limit, view.DefaultMemories)
	at, err := ledger.Read(ctx, s.opts.Ledger, func(v ledger.View) (ledger.AgentState, error) {
		return v.AgentState(agentID)
	})
	if err != nil {
		return out, err
	}
	err = s.with(ctx, agentID, func(ix *recall.Index) error {
		found, err := ix.Search(ctx, recall.Query{Text: q.Text, Limit: q.Limit, Now: s.opts.Now(), All: q.AllWorkspaces,
			WorkspaceID: scope(at.WorkspaceID())})
		for _, m := range found {
			out.Results = append(out.Results, view.MemoryResult{MemoryOrigin: s.origin(agentID, m.Ref, m.Source),
				Snippet: s.opts.Secrets.Text(m.Snippet), Score: m.Score})
		}
		return err
	})
	return out, err
}

// Get returns the memory with a ref that Search returned, with at most limit characters of its text, 0 for
// view.DefaultMemoryChars. Errors: ledger.CodeNotFound, CodeInvalidQuery.
func (s *Service) Get(ctx context.Context, agentID, ref string, limit int) (out view.MemorySource, err error) {
	if limit = cmp.Or(limit, view.DefaultMemoryChars); limit < 1 || limit > view.MaxMemoryChars {
		return out, &state.Error{Code: CodeInvalidQuery, Param: "max_chars", Hint: "leave it out",
			Message: fmt.Sprintf("%d is not a number from 1 to %d", limit, view.MaxMemoryChars)}
	}
	err = s.with(ctx, agentID, func(ix *recall.Index) error {
		source, truncated, err := ix.Get(ctx, ref, limit)
		out = view.MemorySource{MemoryOrigin: s.origin(agentID, ref, source), Content: s.opts.Secrets.Text(source.Body),
			Truncated: truncated}
		return err
	})
	return out, err
}

// Rebuild makes the index of an agent anew.
func (s *Service) Rebuild(ctx context.Context, agentID string) (view.MemoryRebuilt, error) {
	out := view.MemoryRebuilt{AgentID: agentID}
	if err := s.present(ctx, agentID); err != nil {
		return out, err
	}
	unlock := s.lock(agentID)
	err := s.makeDir(agentID)
	if err == nil {
		err = recall.Remove(s.path(agentID))
	}
	unlock()
	if err != nil {
		return out, s.unusable(agentID, err)
	}
	err = s.with(ctx, agentID, func(ix *recall.Index) error {
		out.Sources, err = ix.Count(ctx)
		return err
	})
	return out, err
}

// origin says where a source comes from.
func (s *Service) origin(agentID, ref string, source recall.Source) view.MemoryOrigin {
	o := view.MemoryOrigin{Kind: source.Kind, SourceRef: ref, ScopeKind: view.MemoryScopeAgent, AgentID: agentID,
		WorkspaceID: source.WorkspaceID, SourcePath: source.Path, Title: s.opts.Secrets.Text(source.Title),
		UpdatedAt: turns.At(source.UpdatedAt), Metadata: source.Metadata}
	if source.WorkspaceID != "" {
		o.ScopeKind = view.MemoryScopeWorkspace
	}
	if o.Metadata == nil {
		o.Metadata = map[string]string{}
	}
	return o
}

// with runs fn on the index of an agent once it has all. An index that turns out to be damaged, or to have been made
// before a secret became known, is made anew.
func (s *Service) with(ctx context.Context, agentID string, fn func(*recall.Index) error) error {
	if err := s.present(ctx, agentID); err != nil {
		return err
	}
	defer s.lock(agentID)()
	err := s.once(ctx, agentID, fn)
	if errors.Is(err, recall.ErrDamaged) || errors.Is(err, errUnclean) {
		s.opts.Log.Warn("a memory index can't be used and is made anew", "agent", agentID, "err", err)
		if err = recall.Remove(s.path(agentID)); err == nil {
			err = s.once(ctx, agentID, fn)
		}
	}
	return s.unusable(agentID, err)
}

// present refuses an agent that does not exist, or no longer.
func (s *Service) present(ctx context.Context, agentID string) error {
	a, err := ledger.Read(ctx, s.opts.Ledger, func(v ledger.View) (ledger.Agent, error) { return v.Agent(agentID) })
	if err == nil && a.ArchivedAt != nil { // and its home with it
		return &state.Error{Code: ledger.CodeNotFound, Param: "agent", Message: fmt.Sprintf("agent %s was removed", agentID)}
	}
	return err
}

// unusable says of an error of the disk what the operator can do. Other errors are as they are.
func (s *Service) unusable(agentID string, err error) error {
	_, ofFile := errors.AsType[*fs.PathError](err)
	if err == nil || !ofFile && !errors.Is(err, recall.ErrDamaged) {
		return err
	}
	return &state.Error{Code: view.CodeHomeUnusable, Param: "agent", Err: err,
		Message: fmt.Sprintf("the memory index %s can't be made", s.path(agentID)),
		Hint:    "look at the disk and at the permissions of its directory, and remove what is in its place"}
}

// makeDir makes the directory of an index where there is none that can be used. What is in its place is removed: the
// host has nothing else there.
func (s *Service) makeDir(agentID string) error {
	dir := filepath.Dir(s.path(agentID))
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		if err := os.Remove(dir); err != nil {
			return fmt.Errorf("make the directory of the memory index: %w", err)
		}
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), roots.Reopen(dir)); err != nil {
		return fmt.Errorf("make the directory of the memory index: %w", err)
	}
	return nil
}

func (s *Service) once(ctx context.Context, agentID string, fn func(*recall.Index) error) (err error) {
	if err := s.makeDir(agentID); err != nil {
		return err
	}
	ix, err := recall.Open(ctx, recall.Options{Path: s.path(agentID), Key: s.opts.Key,
		Origin: s.opts.Ledger.RuntimeID() + " " + s.opts.Ledger.Epoch()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	if err := s.feed(ctx, ix, agentID); err != nil {
		return err
	}
	return fn(ix)
}

func (s *Service) path(agentID string) string {
	return filepath.Join(s.opts.Dir(agentID), "indexes", "memory.sqlite3")
}

// lock lets others of the same agent wait until what it returns is called.
func (s *Service) lock(agentID string) (unlock func()) {
	s.mu.Lock()
	l := s.locks[agentID]
	if l == nil {
		l = new(sync.Mutex)
		s.locks[agentID] = l
	}
	s.mu.Unlock()
	l.Lock()
	return l.Unlock
}
