package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/files"
)

// Ask is what a client asks a session to be.
type Ask struct {
	Owner     string // access.Caller.Name
	Name      string // holon.session_id; "" for none
	Model     string // provider/model
	Workspace string // holon.workspace: absolute, beneath an allowed root; "" for an empty tree
	Image     string // holon.image; "": Options.Image
	Once      bool   // nothing can continue it, as with store: false; it is closed early
}

// Names of fields of a request, for errors.
const (
	fieldName      = "holon.session_id"
	fieldWorkspace = "holon.workspace"
	fieldImage     = "holon.image"
)

const maxOwner, maxImage = 128, 512

// check refuses what no session can have.
func (a Ask) check() error {
	if a.Owner == "" || len(a.Owner) > maxOwner {
		return &state.Error{Code: responses.CodeForbidden, Message: "a session needs an owner"}
	}
	if err := responses.CheckID(fieldName, a.Name); a.Name != "" && err != nil {
		return &state.Error{Code: responses.CodeInvalidValue, Param: fieldName, Message: err.Error(),
			Hint: "use letters, digits, '_' and '-'"}
	}
	if state.CheckConversationID(a.Name) == nil {
		return &state.Error{Code: CodeNotFound, Param: fieldName,
			Message: fmt.Sprintf("there is no session %.128q", a.Name),
			Hint:    "this is the form of an id: name a session otherwise, or give the id of one"}
	}
	if len(a.Image) > maxImage || strings.ContainsFunc(a.Image, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return &state.Error{Code: responses.CodeInvalidValue, Param: fieldImage,
			Message: "this is not the name of an image"}
	}
	return nil
}

// Start opens a session, or returns the open one of that name. It makes neither a tree nor a container. With too many
// sessions the error is a *Limited.
func (s *Sessions) Start(ctx context.Context, a Ask) (*Session, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	dir, err := s.allowed(ctx, a.Workspace)
	if err != nil {
		return nil, err
	}
	if err := s.checkDisk(ctx, a.Owner); err != nil {
		return nil, err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	if x := s.openNamed(a.Owner, a.Name); x != nil {
		return x, x.agrees(a, dir)
	}
	if err := s.admit(a.Owner); err != nil {
		return nil, err
	}
	x := s.newSession(record{ID: state.NewConversationID(), Owner: a.Owner, Name: a.Name, Model: a.Model, Image: a.Image,
		Workspace: dir, Once: a.Once, CreatedAt: s.now()})
	if err := s.place(x); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.all[x.id] = x
	s.mu.Unlock()
	s.note(event{What: "opened", Session: x.id, Owner: a.Owner, By: a.Owner, Name: a.Name, Model: a.Model,
		Image: a.Image, Workspace: dir})
	s.wake()
	s.touch(x)
	return x, nil
}

// place makes the directory of a session and, last, its record.
func (s *Sessions) place(x *Session) (err error) {
	dir := s.opts.Home.SessionDir(x.id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of a session: %w", err)
	}
	if err = x.record.write(s.opts.Home); err == nil {
		err = durable.SyncDir(s.opts.Home.SessionsDir())
	}
	if err != nil {
		return errors.Join(err, files.RemoveAll(dir))
	}
	return nil
}

// openNamed is the open session that an owner calls so, nil if there is none.
func (s *Sessions) openNamed(owner, name string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *Session
	for _, x := range s.all {
		if name != "" && x.record.Name == name && x.record.Owner == owner && x.record.open() &&
			(found == nil || x.precedes(found)) {
			found = x
		}
	}
	return found
}

// agrees refuses to continue a session that works elsewhere than it is asked to.
func (x *Session) agrees(a Ask, dir string) error {
	r := x.snapshot()
	param := ""
	switch {
	case a.Workspace != "" && dir != r.Workspace:
		param = fieldWorkspace
	case a.Image != "" && a.Image != cmp.Or(r.Image, x.sessions.opts.Image):
		param = fieldImage
	default:
		return nil
	}
	return &state.Error{Code: CodeConflict, Param: param,
		Message: fmt.Sprintf("the open session %q was made with another %s", a.Name, param),
		Hint:    "leave " + param + " out, or close the session first"}
}

// allowed is the directory that a workspace names, links resolved. The error is the same for what is not allowed and
// for what is not there, unless it lies below a root.
func (s *Sessions) allowed(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	refused := func(code state.Code, message string) error {
		return &state.Error{Code: code, Param: fieldWorkspace, Message: message,
			Hint: "name a directory below one that holon serve allows with --workspace-root"}
	}
	within := func(dir string) bool {
		return slices.ContainsFunc(s.opts.Roots, func(root string) bool { return git.Within(root, dir) })
	}
	switch {
	case strings.ContainsRune(name, 0) || !strings.HasPrefix(name, "/"):
		return "", refused(responses.CodeInvalidValue, "the workspace is no absolute path")
	case !within(name): // resolves links
		return "", refused(CodeNotAllowed, "the workspace is not below an allowed directory")
	}
	dir, err := git.RealDirectory(name)
	if err != nil {
		return "", refused(responses.CodeInvalidValue, "the workspace is no directory")
	}
	user, err := git.Locate(ctx, dir, s.opts.Borrowing())
	if err != nil {
		return "", typed(err)
	}
	top := dir
	if user != nil {
		top = user.Top
	}
	// a repository above a root would bring files of its own; one that is swapped meanwhile is caught here too
	if !within(dir) || !within(top) || git.Within(s.opts.Home.Dir(), dir) || git.Within(dir, s.opts.Home.Dir()) {
		return "", refused(CodeNotAllowed, "the workspace is not below an allowed directory")
	}
	return dir, nil
}

// stillAllowed fails if something else is where a workspace was: who applies changes may replace directories.
func (s *Sessions) stillAllowed(ctx context.Context, dir string) error {
	now, err := s.allowed(ctx, dir)
	if err == nil && now != dir {
		err = &state.Error{Code: CodeNotAllowed, Param: fieldWorkspace,
			Message: "the workspace of the session was replaced by a link", Hint: "put the directory back"}
	}
	return err
}

// Info describes a session for its owner and the operator.
type Info struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Owner       string     `json:"owner"`
	Status      string     `json:"status"`   // StatusOpen, StatusClosed
	Activity    string     `json:"activity"` // waiting (for a place or for agentd), running, idle, paused, stopped
	Model       string     `json:"model"`
	Workspace   string     `json:"workspace"`
	CreatedAt   turns.Time `json:"created_at"`
	LastUsedAt  turns.Time `json:"last_used_at"`
	ClosedAt    turns.Time `json:"closed_at"`
	ResponseIDs []string   `json:"response_ids"`
	Current     string     `json:"current"` // Session.Current
	Rewound     bool       `json:"rewound"` // the session went back, and accepted no turn since
	TreeLostAt  turns.Time `json:"tree_lost_at"`
	Usage       Usage      `json:"usage"`
}

// Info describes the session as it is now.
func (x *Session) Info() Info {
	s := x.sessions
	held := s.opts.Pool.Isolation(x.id) != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &x.record
	info := Info{ID: r.ID, Name: r.Name, Owner: r.Owner, Status: StatusOpen, Model: r.Model, Workspace: r.Workspace,
		CreatedAt: r.CreatedAt, LastUsedAt: x.log.last, ClosedAt: r.ClosedAt, Usage: x.log.usage(),
		ResponseIDs: append([]string{}, x.log.responses...), Current: x.log.current, Rewound: x.log.rewound,
		TreeLostAt: x.log.lost}
	if !r.open() {
		info.Status = StatusClosed
	}
	switch idle := s.opts.Now().Sub(x.log.last.Time()); {
	case len(x.log.going) > 0 && !x.begun(""):
		info.Activity = "waiting"
	case len(x.log.going) > 0:
		info.Activity = "running"
	case !held:
		info.Activity = "stopped"
	case s.opts.Pause > 0 && idle >= s.opts.Pause:
		info.Activity = "paused"
	default:
		info.Activity = "idle"
	}
	return info
}

func (f *folded) usage() Usage {
	return Usage{Turns: f.turns, Tokens: f.account.Total, Cost: f.account.Cost}
}

// AgentSession is the name of the session for agentd, which is its id.
func (x *Session) AgentSession() string { return x.id }

func (x *Session) snapshot() record {
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	return x.record
}
