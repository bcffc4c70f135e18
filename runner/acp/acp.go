// Package acp lets an editor work with a daemon by the Agent Client Protocol: JSON-RPC over a pair of streams, with one
// message a line.
//
// A session of the editor is a session of the daemon, whose name is its id; a prompt is a response that the daemon
// makes in the background and that is followed. The agent works in its container, so that the editor's methods for
// files and terminals are not used: what it changed is shown as diffs of the session's private tree, and brought into
// the editor's files as the session's mode says.
//
// The invariants: whatever the editor writes is answered with a result or an error; a session has one prompt at a time,
// which has exactly one answer; nothing is written into the editor's files except by the daemon's apply, and in the
// mode ask only after the editor's user allowed it. Updates of a session come in the order in which things happened.
package acp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"holon/responses"
	"holon/responses/client"
)

// Options say what is served.
type Options struct {
	Client   *client.Client // of the daemon
	Model    string         // of new sessions; with AgentPrefix, the id of an agent to talk to instead
	Mode     Mode           // in which sessions begin
	Thoughts bool           // models are asked for summaries of their reasoning, which some refuse
	Version  string
	Log      *slog.Logger
}

// AgentPrefix begins the model of a conversation with a long-lived agent.
const AgentPrefix = "agent/"

// Mode says when what an agent changed is brought into the editor's files.
type Mode string

// The modes.
const (
	Ask     Mode = "ask"     // after each turn, when the user allows it
	Apply   Mode = "apply"   // after each turn
	Private Mode = "private" // not at all
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Ask, Apply, Private} }

// maxSessions bounds the sessions of one editor.
const maxSessions = 256

// Serve answers an editor until in ends, which is no error, or ctx. Prompts that are under way are cancelled then. A
// read of in may be left behind when ctx ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	a := &agent{opts: o, daemon: daemon{o.Client}, sessions: map[string]*session{}}
	a.conn = newConn(in, out, a.handle)
	return a.conn.serve(ctx)
}

// agent is what an editor talks to.
type agent struct {
	opts   Options
	daemon daemon
	conn   *conn

	mu       sync.Mutex
	sessions map[string]*session
}

func (a *agent) handle(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case "initialize":
		return a.initialize(), nil
	case "session/new":
		return with(ctx, params, a.newSession)
	case "session/load":
		return with(ctx, params, a.loadSession)
	case "session/set_mode":
		return with(ctx, params, a.setMode)
	case "session/prompt":
		return with(ctx, params, a.prompt)
	case methodCancel:
		return with(ctx, params, a.cancel)
	}
	return nil, &rpcError{Code: codeMethodNotFound, Message: "there is no such method"}
}

// with decodes the parameters of a method and calls it.
func with[P any](ctx context.Context, params json.RawMessage, do func(context.Context, P) (any, error)) (any, error) {
	var p P
	if err := responses.CheckDepth(params); err != nil {
		return nil, invalidParams("the parameters are not usable: %v", err)
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, invalidParams("the parameters are not usable: %v", err)
	}
	return do(ctx, p)
}

// initialize offers the one version there is; an editor that has another one leaves.
func (a *agent) initialize() initialized {
	answer := initialized{ProtocolVersion: protocolVersion, AuthMethods: []struct{}{},
		AgentInfo: info{Name: "holon", Title: "Holon", Version: a.opts.Version}}
	answer.AgentCapabilities.LoadSession = true
	answer.AgentCapabilities.Prompt.Image = true
	answer.AgentCapabilities.Prompt.EmbeddedContext = true
	return answer
}

// newSession names a session, which the daemon opens with its first prompt.
func (a *agent) newSession(_ context.Context, p newSession) (any, error) {
	s, err := a.add(responses.NewID("acp_"), p)
	if err != nil {
		return nil, err
	}
	return opened{SessionID: s.id, Modes: a.modes(s.mode)}, nil
}

// add keeps a session. One that is there already is taken anew, unless it is busy.
func (a *agent) add(id string, p newSession) (*session, error) {
	if !filepath.IsAbs(p.Cwd) {
		return nil, invalidParams("cwd must be an absolute path, this is %.300q", p.Cwd)
	}
	if len(p.MCPServers) > 0 {
		a.opts.Log.Warn("the editor's MCP servers are not used: the agent works in its container",
			"servers", len(p.MCPServers))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.sessions[id]; old != nil && old.turn != nil {
		return nil, errBusy()
	} else if old == nil && len(a.sessions) >= maxSessions {
		return nil, &rpcError{Code: codeBusy, Message: "too many sessions are open; restart the agent"}
	}
	cwd := filepath.Clean(p.Cwd)
	s := &session{agent: a, id: id, cwd: cwd, workspace: cwd, top: topOf(cwd), mode: a.opts.Mode, model: a.opts.Model}
	a.sessions[id] = s
	return s, nil
}

// topOf is the top of the git working tree that a directory is in, else the directory.
func topOf(dir string) string {
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return top
		} else if top == filepath.Dir(top) {
			return dir
		}
	}
}

func errBusy() error {
	return &rpcError{Code: codeInvalidRequest, Message: "the session has a prompt under way; cancel it first"}
}

// find returns a session that the editor has opened.
func (a *agent) find(id string) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		return s, nil
	}
	return nil, &rpcError{Code: codeNotFound, Message: "there is no such session; use session/new or session/load"}
}

func (a *agent) modes(current Mode) modes {
	return modes{Current: current, Available: []modeInfo{
		{Ask, "Ask", "Shows each change and applies it to your files when you allow it"},
		{Apply, "Apply", "Applies what a turn changed to your files after it"},
		{Private, "Private", "Leaves changes in the session's private copy"},
	}}
}

func (a *agent) setMode(_ context.Context, p setMode) (any, error) {
	s, err := a.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(Modes(), p.ModeID) {
		return nil, invalidParams("modeId is %.100q; the modes are %v", p.ModeID, Modes())
	}
	s.setMode(p.ModeID)
	return struct{}{}, nil
}

// cancel ends the prompt of a session, which answers.
func (a *agent) cancel(_ context.Context, p cancelled) (any, error) {
	s, err := a.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.turn != nil {
		s.turn()
	}
	return nil, nil
}

// rpcErrorOf is an error as the editor gets it.
func rpcErrorOf(err error) *rpcError {
	if e, ok := errors.AsType[*rpcError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*responses.Error](err); ok {
		code := codeInternal
		if e.Type == responses.TypeNotFound {
			code = codeNotFound
		}
		return &rpcError{Code: code, Message: e.Error(), Data: &errorData{Code: e.Code, Param: e.Param, Hint: e.Hint}}
	}
	return &rpcError{Code: codeInternal, Message: err.Error()}
}
