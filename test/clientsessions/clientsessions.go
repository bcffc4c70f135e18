// Package clientsessions has sessions of clients in memory, for tests of what is before them: the routes of the control
// plane, and the commands. They have no containers.
package clientsessions

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/access"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/expect"
)

// Sessions are at most three, of which the operator has the first, named first.
type Sessions struct {
	mu    sync.Mutex
	all   []*session
	done  []string
	patch string // a file
}

type session struct {
	sessions *Sessions
	info     wire.Session
}

// Patch is what was changed in each.
const Patch = "diff --git a/x b/x\n"

// New makes the first one.
func New(t testing.TB) *Sessions {
	t.Helper()
	s := &Sessions{patch: filepath.Join(t.TempDir(), "patch")}
	expect.NoError(t, os.WriteFile(s.patch, []byte(Patch), 0o600))
	_, err := s.Start(t.Context(), access.Operator, wire.StartSession{Name: "first"})
	expect.NoError(t, err)
	return s
}

// full is the refusal of one session too many.
type full struct{ error }

func (full) RetryAfter() time.Duration { return 90 * time.Second }
func (f full) Unwrap() error           { return f.error }

// Start implements control.Sessions.
func (s *Sessions) Start(_ context.Context, owner string, n wire.StartSession) (wire.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 3 {
		return wire.Session{}, full{&state.Error{Code: "session_limit", Message: "there are 3 sessions", Hint: "wait"}}
	}
	at := turns.At(time.Date(2026, 11, 22, 10, 0, len(s.all), 0, time.UTC))
	x := &session{sessions: s, info: wire.Session{ID: fmt.Sprintf("ses_%d", len(s.all)+1), Name: n.Name,
		Owner: owner, Status: "open", Activity: "stopped", Model: cmp.Or(n.Model, "scripted/demo"), Workspace: n.Workspace,
		CreatedAt: at, LastUsedAt: at, ResponseIDs: []string{}}}
	s.all = append([]*session{x}, s.all...)
	return x.info, nil
}

// List implements control.Sessions.
func (s *Sessions) List(owner string) (list []wire.Session, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if owner == "" || owner == x.info.Owner {
			list = append(list, x.info)
		}
	}
	return list, nil
}

// Find implements control.Sessions.
func (s *Sessions) Find(owner, name string) (control.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if (owner == "" || owner == x.info.Owner) && (name == x.info.ID || name == x.info.Name) {
			return x, nil
		}
	}
	return nil, &state.Error{Code: "session_not_found", Param: "session", Message: "there is no such session",
		Hint: "list them"}
}

func (x *session) Info() wire.Session {
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	return x.info
}

func (x *session) did(what, by string) {
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	x.sessions.done = append(x.sessions.done, x.info.ID+" "+what+" "+by)
}

// Done are the calls that changed something: the session, the call with its parameters, and who made it.
func (s *Sessions) Done() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.done, "\n")
}

func (x *session) Diff(context.Context) (*state.Diff, error) {
	return &state.Diff{Patch: x.sessions.patch, PatchBytes: int64(len(Patch)), Bundle: "/host/bundle",
		Files: []state.FileChange{{Path: "x", Status: "added", Added: 1}}}, nil
}

func (x *session) Apply(_ context.Context, a wire.ApplySession, by string) (wire.SessionApplied, error) {
	x.did(fmt.Sprintf("apply %+v", a), by)
	return wire.SessionApplied{SessionID: x.info.ID, Path: "/src", Written: []string{"x"}, Deleted: []string{}}, nil
}

func (x *session) Checkout(_ context.Context, c wire.CheckoutSession, by string) (wire.SessionCheckout, error) {
	if c.Branch == "taken" {
		return wire.SessionCheckout{}, &state.Error{Code: "checked_out", Param: "branch",
			Message: "the result is checked out at /host/tree", Hint: "holon remove it"}
	}
	x.did(fmt.Sprintf("checkout %+v", c), by)
	return wire.SessionCheckout{SessionID: x.info.ID, Branch: c.Branch, Worktree: c.Path, Commits: 1}, nil
}

func (x *session) Turns() ([]wire.SessionTurn, error) {
	return []wire.SessionTurn{{TurnID: "turn_1", ResponseID: "resp_1", CreatedAt: x.info.CreatedAt, Status: "completed",
		InputPreview: "fix it", TextPreview: "done", TreeKept: true}, {TurnID: "turn_2", ResponseID: "resp_2",
		PreviousResponseID: "resp_1", CreatedAt: x.info.CreatedAt, Status: "completed", InputPreview: "and\x1b[31m test it",
		Current: true}}, nil
}

func (x *session) Rewind(_ context.Context, w wire.RewindSession, by string) (wire.SessionRewound, error) {
	if w.ResponseID == "resp_2" && !w.ConversationOnly {
		return wire.SessionRewound{}, &state.Error{Code: "tree_not_kept", Param: "response_id",
			Message: "the files after resp_2 were not kept", Hint: "go back with the conversation alone"}
	}
	x.did(fmt.Sprintf("rewind %+v", w), by)
	return wire.SessionRewound{SessionID: x.info.ID, ResponseID: w.ResponseID, TreeRestored: !w.ConversationOnly}, nil
}

func (x *session) Close(_ context.Context, by string) error {
	x.did("close", by)
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	x.info.Status, x.info.ClosedAt = "closed", x.info.CreatedAt
	return nil
}
