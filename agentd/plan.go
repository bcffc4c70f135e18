package agentd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holon/agentd/mcp"
	"holon/agentd/model"
	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/agentd/worktree"
	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
)

// plan is a checked request: all that its turn needs to know. Making a plan
// changes nothing but for the servers that its offer holds, until it is released.
type plan struct {
	req    *responses.Request // with the items that its input refers to
	turnID string
	target
	offered
	thread
	directories
	telling
	limits
	fragile bool              // the turn ends when the last client that waits for it goes
	above   tracecontext.Span // as in origin
}

// target is the model of a turn.
type target struct {
	model.Choice // zero when no model is chosen
	takes        model.Capabilities
}

// thread is the conversation of a turn.
type thread struct {
	sessionID string
	at        record.Thread    // zero: the store finds it
	stored    storedPrefix     // of history
	unstored  []responses.Item // of history: what a stored response has to bring along
	before    []responses.Item // history as it is stored
	history   []responses.Item // as the model is told it
	input     []responses.Item // the request's, as the model is told it
}

// directories are those of a turn.
type directories struct {
	turnDir  string
	inputDir string // "" for none
	workDir  string
	anchor   string         // where AGENTS.md and workspace skills are read; "" for workDir
	private  *worktree.Tree // that holds workDir; nil when the turn is not isolated
	origin   string         // of that tree
	goesOn   bool           // the private tree waits for a turn that continues this one
}

// artifacts is where the turn's commands leave files.
func (d directories) artifacts() string { return filepath.Join(d.turnDir, turns.ArtifactsDir) }

// offered are the tools of a turn. They stay the same while it runs.
type offered struct {
	toolset turn.Toolset // the container's and those of servers
	offer   *mcp.Offer   // what servers offer; released when the turn is over
}

// limits bound a turn. A request can only tighten those of the server.
type limits struct {
	rounds int
	time   time.Duration // from the moment the turn leaves the queue: how long others take is not its fault
	output int64         // bytes in the output directory, 0 for any number
}

// plan resolves and checks all that a request names. Without needsModel, one whose model is unknown is planned too, for
// a model that takes everything.
func (s *Server) plan(turnID string, req *responses.Request, mem *memory, needsModel bool) (_ *plan, err error) {
	if req, err = s.refuse(req, mem); err != nil {
		return nil, err
	}
	to, err := s.target(req.Model, req.Holon.ModelFallbacks)
	if err != nil && needsModel {
		return nil, err
	}
	if err != nil {
		to.takes = model.Capabilities{Images: true, Files: true, Video: true}
	}
	with, err := s.offerTools(req)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			with.offer.Release()
		}
	}()
	tools := with.toolset.Definitions()
	if err := errors.Join(turn.Check(req, tools, to.takes), checkShadows(req, toolNames(tools))); err != nil {
		return nil, err
	}
	req, past, err := s.thread(req, mem, to.takes)
	if err != nil {
		return nil, err
	}
	if err := turn.CheckHistory(past.history, to.takes); err != nil {
		return nil, err
	}
	dirs, err := s.directories(turnID, req.Holon)
	if err != nil {
		return nil, err
	}
	told, err := s.telling(req, with.toolset, past, dirs)
	if err != nil {
		return nil, err
	}
	return &plan{req: req, turnID: turnID, target: to, offered: with, thread: past, directories: dirs, telling: told,
		limits: s.limits(req.Holon.Limits), fragile: cancelOnDisconnect(req)}, nil
}

// target finds the model that a request names, with its fallbacks.
func (s *Server) target(ref string, fallbacks []string) (target, error) {
	m, err := s.parts.Models.Resolve(ref, fallbacks...)
	if err != nil {
		return target{}, s.blame(err, fallbacks)
	}
	return target{m, model.CapabilitiesOf(m.Transport, m.Name)}, nil
}

// blame says in an error which of the fallbacks of a request there is no model for, if it is one of them.
func (s *Server) blame(err error, fallbacks []string) error {
	for i, ref := range fallbacks {
		_, wrong := s.parts.Models.Resolve(ref)
		if e, ok := errors.AsType[*responses.Error](wrong); ok {
			named := *e
			named.Param = fmt.Sprintf("holon.model_fallbacks[%d]", i)
			return &named
		}
	}
	return err
}

// offerTools finds the tools of a turn: the container's, and those that servers
// offer at this moment.
func (s *Server) offerTools(req *responses.Request) (offered, error) {
	// Not the request's context: the turn may outlive it, and the wait is bounded.
	offer, err := s.parts.MCP.Offer(s.lifetime, req.MCP)
	if err != nil {
		return offered{}, err
	}
	all, err := s.parts.Tools()
	if err == nil && len(offer.Tools) > 0 {
		offer.Notes = append(offer.Notes, offer.Replaced(all.Definitions())...)
		all, err = all.With(offer.Tools...)
	}
	if err != nil {
		offer.Release()
		return offered{}, responses.Internal("the tools cannot be offered; the server's log has the details", err)
	}
	return offered{all, offer}, nil
}

// thread finds the conversation that req continues and checks its input against
// it and against what the model takes. It returns req with the items that its
// input refers to.
func (s *Server) thread(req *responses.Request, mem *memory, takes model.Capabilities) (*responses.Request, thread,
	error) {
	history, session, stored, err := s.recall(req.PreviousResponseID, mem)
	if err != nil {
		return nil, thread{}, err
	}
	// A new stored response must not rest on one that was deleted.
	if stored.response != req.PreviousResponseID && req.Store {
		if _, _, err := s.store.Chain(stored.response); err != nil {
			stored = storedPrefix{}
		}
	}
	past := thread{sessionID: cmp.Or(req.Holon.SessionID, session), stored: stored}
	switch {
	case past.sessionID == "": // it has no turn yet: its first thread has its id
		past.sessionID = responses.NewID(responses.PrefixSession)
		past.at.ID = past.sessionID
	case past.sessionID == session && mem.holds(req.PreviousResponseID):
		past.at = mem.at
	}
	if err := refuseContext(req.Input); err != nil {
		return nil, thread{}, err
	}
	known := conversation{items: history, find: s.findItem, left: s.leftItem}
	known.accept = func(param string, item responses.Item) error { return turn.CheckReferred(param, item, takes) }
	resolved := *req
	if resolved.Input, err = known.resolve(req.Input); err != nil {
		return nil, thread{}, err
	}
	identify(resolved.Input)
	past.before = history
	if req.Store {
		past.unstored = history[stored.n:]
	}
	if past.history, err = s.sealer.Expand("previous_response_id", history); err != nil {
		return nil, thread{}, err
	}
	past.input, err = s.sealer.Expand("input", resolved.Input)
	return &resolved, past, err
}

// recall returns the conversation up to the response id, its session, and what
// of it is stored: from mem where that holds it, else from the store.
func (s *Server) recall(id string, mem *memory) (items []responses.Item, session string, stored storedPrefix,
	err error) {
	if id == "" {
		return nil, "", storedPrefix{}, nil
	}
	if mem.holds(id) {
		return mem.items, mem.session, mem.stored, nil
	}
	items, session, err = s.store.Chain(id)
	if errors.Is(err, record.ErrNotFound) && s.unfinished(id) {
		return nil, "", storedPrefix{}, &responses.Error{Type: responses.TypeInvalidRequest,
			Code: responses.CodePreviousInProgress, Param: "previous_response_id",
			Message: fmt.Sprintf("the response %s is not over", clipID(id)), Hint: "wait for its end, or cancel it"}
	}
	if errors.Is(err, record.ErrNotFound) {
		return nil, "", storedPrefix{}, responses.PreviousNotFound(id)
	}
	if err != nil {
		return nil, "", storedPrefix{}, responses.Internal("the stored conversation cannot be read", err)
	}
	return items, session, storedPrefix{id, len(items)}, nil
}

// unfinished reports whether the response id is being made and will be stored.
func (s *Server) unfinished(id string) bool {
	lt := s.byResponse(id)
	return lt != nil && lt.response.Store
}

// findItem returns a stored item, for references, or record.ErrNotFound.
func (s *Server) findItem(id string) (responses.Item, error) { return s.store.Item(s.lifetime, id) }

// leftItem reports whether the item is of an answer that broke off or was empty.
func (s *Server) leftItem(id string) (bool, error) { return s.store.Left(s.lifetime, id) }

// directories finds the turn's directories. Named ones must lie under the
// configured roots.
func (s *Server) directories(turnID string, h responses.Holon) (d directories, err error) {
	roots := s.cfg.Dirs
	d.turnDir = s.defaultDir(turnID)
	if h.OutputDir != "" {
		if d.turnDir, err = confine("holon.output_dir", roots.Output, h.OutputDir); err != nil {
			return d, err
		}
	}
	if h.InputDir != "" {
		if d.inputDir, err = existing("holon.input_dir", roots.Input, h.InputDir); err != nil {
			return d, err
		}
	} else if dir := filepath.Join(roots.Input, "turns", turnID); isDir(dir) {
		d.inputDir = dir
	}
	if h.AnchorDir != "" {
		if d.anchor, err = existing("holon.anchor_dir", roots.Anchors, h.AnchorDir); err != nil {
			return d, err
		}
	}
	s.parts.Users.Do(func() { d.workDir, err = s.workDir(d, h) })
	return d, err
}

// workDir finds the directory in which a turn works, unless it is isolated.
func (s *Server) workDir(d directories, h responses.Holon) (string, error) {
	if h.WorkspaceDir != "" {
		return s.treeAt("holon.workspace_dir", h.WorkspaceDir)
	}
	root := s.cfg.StartDir()
	if info, err := os.Stat(root); err == nil && info.IsDir() { // the operator may have named a link
		return root, nil
	}
	if h.Isolates() {
		return "", responses.Invalid("holon.isolation", responses.CodeInvalidValue,
			fmt.Sprintf("the server has no working tree to isolate: there is no directory %s", root))
	}
	return d.artifacts(), nil
}

// treeAt returns the working tree with the name that param has.
func (s *Server) treeAt(param, name string) (string, error) {
	dir, err := existing(param, s.cfg.Dirs.Workspace, name)
	if err == nil && worktree.IsPrivate(dir) {
		err = responses.Invalid(param, responses.CodeInvalidValue,
			fmt.Sprintf("%s is the private tree of another turn", dir))
	}
	return dir, err
}

// existing returns the directory that a request names, which must lie under root.
func existing(param, root, name string) (string, error) {
	dir, err := confine(param, root, name)
	if err == nil && !isDir(dir) {
		err = responses.Invalid(param, responses.CodeInvalidValue, fmt.Sprintf("there is no directory %s", dir))
	}
	return dir, err
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// limits returns the server's limits, tightened by the request's, which may be nil.
func (s *Server) limits(asked *responses.Limits) limits {
	l := limits{rounds: s.cfg.Turns.MaxRounds, time: s.cfg.Turns.Timeout, output: s.cfg.Turns.MaxOutput}
	if asked == nil {
		return l
	}
	if asked.MaxRounds > 0 {
		l.rounds = min(l.rounds, asked.MaxRounds)
	}
	if asked.TimeoutMS > 0 {
		l.time = min(l.time, time.Duration(asked.TimeoutMS)*time.Millisecond)
	}
	if asked.MaxOutputBytes > 0 && (l.output == 0 || asked.MaxOutputBytes < l.output) {
		l.output = asked.MaxOutputBytes
	}
	return l
}
