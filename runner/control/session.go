package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"holon/internal/httpserver"
	"holon/runner/access"
	"holon/runner/control/wire"
	"holon/state"
)

// Sessions are those of clients. Errors are typed; a session that is not there and one of another owner are the same.
type Sessions interface {
	// Start opens a session of owner, or returns the open one with the name, which must be of the same kind.
	Start(ctx context.Context, owner string, s wire.StartSession) (wire.Session, error)
	// List returns the sessions of owner, "" for all, the newest first.
	List(owner string) ([]wire.Session, error)
	// Find returns the session of owner, "" for any, with an id or a name.
	Find(owner, idOrName string) (Session, error)
}

// Session is one of Sessions. by is the name of who asks.
type Session interface {
	Info() wire.Session
	Diff(ctx context.Context) (*state.Diff, error)
	Apply(ctx context.Context, a wire.ApplySession, by string) (wire.SessionApplied, error)
	Checkout(ctx context.Context, c wire.CheckoutSession, by string) (wire.SessionCheckout, error)
	Turns() ([]wire.SessionTurn, error)
	Rewind(ctx context.Context, w wire.RewindSession, by string) (wire.SessionRewound, error)
	// Close ends the session. It may be called again.
	Close(ctx context.Context, by string) error
}

// sessionRoutes are ways to the sessions of clients: an operator's to all, and below /v1/holon a caller's to its own.
func (s *Server) sessionRoutes() (list []route) {
	for _, at := range []struct {
		read, change string
		own          bool
	}{{"/sessions", "/control/sessions", false}, {"/v1/holon/sessions", "/v1/holon/sessions", true}} {
		of := sessionsOf{s, at.own}
		one, change := at.read+"/{session_id}", at.change+"/{session_id}"
		for _, r := range []route{
			{method: "GET", path: at.read, handle: of.list},
			{method: "GET", path: one, handle: of.show},
			{method: "GET", path: one + "/diff", stream: of.diff, queries: true},
			{method: "GET", path: one + "/turns", handle: of.turns},
			{method: "POST", path: at.change, take: takes(s, maxSmall, optional, of.start)},
			{method: "POST", path: change + "/apply", take: takes(s, maxSmall, optional, of.apply)},
			{method: "POST", path: change + "/checkout", take: takes(s, maxSmall, optional, of.checkout)},
			{method: "POST", path: change + "/rewind", take: takes(s, maxSmall, required, of.rewind)},
			{method: "POST", path: change + "/close", handle: of.close},
		} {
			r.clients = at.own
			list = append(list, r)
		}
	}
	return list
}

// sessionsOf has the handlers for sessions: of all, or of the caller's own.
type sessionsOf struct {
	server *Server
	own    bool
}

// owner is whose sessions a request is about, "" for all.
func (h sessionsOf) owner(r *http.Request) string {
	if h.own {
		return access.From(r.Context()).Name
	}
	return ""
}

func (h sessionsOf) all() (Sessions, error) {
	if h.server.opts.Sessions == nil {
		return nil, &state.Error{Code: wire.CodeUnsupported, Message: "this runtime has no sessions"}
	}
	return h.server.opts.Sessions, nil
}

// find returns the session that the path names, and gives its answer the time of a container.
func (h sessionsOf) find(w http.ResponseWriter, r *http.Request) (Session, error) {
	all, err := h.all()
	if err != nil {
		return nil, err
	}
	h.server.mayTake(w, containerTime)
	return all.Find(h.owner(r), httpserver.PathValue(r, "session_id"))
}

func (h sessionsOf) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := h.all()
	if err != nil {
		return nil, err
	}
	list, err := all.List(h.owner(r))
	return wire.SessionList{Object: "list", Data: append([]wire.Session{}, list...)}, err
}

func (h sessionsOf) start(w http.ResponseWriter, r *http.Request, start wire.StartSession) (any, error) {
	all, err := h.all()
	if err != nil {
		return nil, err
	}
	caller := access.From(r.Context())
	if !caller.Sessions {
		return nil, &state.Error{Code: wire.CodeForbidden, Param: "Authorization",
			Message: "the token of " + caller.Name + " may not open sessions", Hint: "give it the right sessions"}
	}
	if err := checkPath("workspace", start.Workspace); err != nil {
		return nil, err
	}
	h.server.mayTake(w, containerTime)
	made, err := all.Start(r.Context(), caller.Name, start)
	return made, ofContainer(err)
}

func (h sessionsOf) show(w http.ResponseWriter, r *http.Request) (any, error) {
	one, err := h.find(w, r)
	if err != nil {
		return nil, err
	}
	return one.Info(), nil
}

// diff answers with what was changed, or with the patch to a client that accepts text/x-diff.
func (h sessionsOf) diff(w http.ResponseWriter, r *http.Request) {
	answer, err := h.changes(w, r)
	if err == nil && strings.Contains(r.Header.Get("Accept"), "text/x-diff") {
		err = sendPatch(w, r, &answer.Changes)
		if err == nil {
			return
		}
	}
	if err != nil {
		h.server.fail(w, r, ofContainer(err))
		return
	}
	if !access.From(r.Context()).Operator {
		answer.Changes.Patch, answer.Changes.Bundle = "", "" // they are paths of the host
	}
	h.server.send(w, http.StatusOK, answer)
}

func (h sessionsOf) changes(w http.ResponseWriter, r *http.Request) (out wire.SessionDiff, err error) {
	q, err := queryOf(r, "patch_bytes")
	if err != nil {
		return out, err
	}
	limit, err := q.number("patch_bytes", wire.MaxPatch)
	if err != nil {
		return out, err
	}
	one, err := h.find(w, r)
	if err != nil {
		return out, err
	}
	changes, err := one.Diff(r.Context())
	if err != nil {
		return out, err
	}
	out = wire.SessionDiff{SessionID: one.Info().ID, Changes: *changes}
	out.PatchText, err = patchText(changes, limit)
	return out, err
}

// sendPatch answers with a patch. It is never shown as a page: a container wrote it.
func sendPatch(w http.ResponseWriter, r *http.Request, of *state.Diff) error {
	var patch io.ReadSeeker = strings.NewReader("")
	if of.PatchBytes > 0 {
		f, err := os.Open(of.Patch)
		if err != nil {
			return fmt.Errorf("read the patch of a session: %w", err)
		}
		defer f.Close()
		patch = f
	}
	header := w.Header()
	header.Set("Content-Type", "text/x-diff")
	header.Set("Content-Disposition", "attachment")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	http.ServeContent(w, r, "", time.Time{}, patch)
	return nil
}

// mayExecute refuses a client that is no operator what an operator has to agree to.
func mayExecute(c access.Caller, allowed bool) error {
	if !allowed || c.Operator {
		return nil
	}
	return &state.Error{Code: wire.CodeForbidden, Param: "allow_executed",
		Message: "files that programs execute unasked are for an operator to allow", Hint: "leave allow_executed out"}
}

func (h sessionsOf) apply(w http.ResponseWriter, r *http.Request, a wire.ApplySession) (any, error) {
	caller := access.From(r.Context())
	if err := mayExecute(caller, a.AllowExecuted); err != nil {
		return nil, err
	}
	one, err := h.find(w, r)
	if err != nil {
		return nil, err
	}
	done, err := one.Apply(r.Context(), a, caller.Name)
	return done, ofContainer(err)
}

func (h sessionsOf) checkout(w http.ResponseWriter, r *http.Request, c wire.CheckoutSession) (any, error) {
	caller := access.From(r.Context())
	if !caller.Operator && c.Path != "" {
		return nil, &state.Error{Code: wire.CodeForbidden, Param: "path", Message: "only an operator chooses the directory",
			Hint: "leave it out: the branch gets one of its own"}
	}
	if err := errors.Join(checkPath("path", c.Path), mayExecute(caller, c.AllowExecuted)); err != nil {
		return nil, err
	}
	one, err := h.find(w, r)
	if err != nil {
		return nil, err
	}
	done, err := one.Checkout(r.Context(), c, caller.Name)
	if !caller.Operator {
		done.Worktree = ""
	}
	return done, ofContainer(err)
}

func (h sessionsOf) turns(w http.ResponseWriter, r *http.Request) (any, error) {
	one, err := h.find(w, r)
	if err != nil {
		return nil, err
	}
	list, err := one.Turns()
	return wire.SessionTurnList{Object: "list", Data: append([]wire.SessionTurn{}, list...)}, err
}

func (h sessionsOf) rewind(w http.ResponseWriter, r *http.Request, to wire.RewindSession) (any, error) {
	one, err := h.find(w, r)
	if err != nil {
		return nil, err
	}
	done, err := one.Rewind(r.Context(), to, access.From(r.Context()).Name)
	return done, ofContainer(err)
}

func (h sessionsOf) close(w http.ResponseWriter, r *http.Request) (any, error) {
	one, err := h.find(w, r)
	if err != nil {
		return nil, err
	}
	if err := one.Close(r.Context(), access.From(r.Context()).Name); err != nil {
		return nil, ofContainer(err)
	}
	return one.Info(), nil
}
