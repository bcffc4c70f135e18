package agentd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"holon/agentd/activation"
	"holon/agentd/mcp"
	"holon/agentd/model"
	"holon/agentd/prompt"
	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/agentd/turntoken"
	"holon/responses"
	"holon/responses/turns"
)

// plan is a checked request: everything a turn needs, nothing done yet.
type plan struct {
	req       *responses.Request
	turnID    string
	sessionID string
	turnDir   string
	inputDir  string // "" for none
	workDir   string
	transport model.Transport
	modelName string
	modelRef  string
	history   []responses.Item
	input     []responses.Item // the request's, as the model is told it
	base      base             // what the history is made of
	toolset   turn.Toolset     // the container's and those of servers
	offer     *mcp.Offer       // what servers offer; released when the turn is over
	unstored  []responses.Item // of the history: what a stored response has to bring along
	telling
}

// accept takes a request in: it returns the turn that answers it, running or
// queued, or, when the request repeats an earlier one with the same turn_id,
// the turn of that one. When accept returns a new turn, its record is on disk.
// The caller must release the view. mem is a conversation that the request may
// continue although it is not stored, or nil.
func (s *Server) accept(req *responses.Request, from origin, mem *memory) (*view, error) {
	turnID, chosen := req.Holon.TurnID, true
	if turnID == "" {
		turnID, chosen = responses.NewID(responses.PrefixTurn), false
	}
	for {
		lt, owner := s.claim(turnID, req.Digest)
		if !owner {
			if v, err := lt.await(req.Digest); v != nil || err != nil {
				return v, err
			}
			continue // it ended in this moment and is on disk now
		}
		return s.settleClaim(lt, func() (*view, error) { return s.begin(lt, req, from, chosen, mem) })
	}
}

// settleClaim begins the turn that lt claims and tells those who wait for it,
// even when begin panics: a claim that nobody settles would block its id.
func (s *Server) settleClaim(lt *liveTurn, begin func() (*view, error)) (v *view, err error) {
	err = responses.Internal("the turn could not be begun", nil)
	defer func() {
		if err != nil || v.events != lt.events() {
			s.forget(lt) // there is no new turn
		}
		lt.began(err)
	}()
	return begin()
}

// begin checks the request, records the turn and starts it. When the caller
// chose the turn's id and the turn is on disk already, it returns that one.
func (s *Server) begin(lt *liveTurn, req *responses.Request, from origin, chosen bool, mem *memory) (*view, error) {
	if chosen {
		if v, err := s.onDisk(lt.id, req.Digest); v != nil || err != nil {
			return v, err
		}
	}
	p, err := s.plan(lt.id, req, mem)
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun {
			p.offer.Release()
		}
	}()
	if err := s.checkDisk(); err != nil {
		return nil, err
	}
	s.settle()
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer func() {
		if !begun {
			s.running.Done()
		}
	}()
	ticket, err := s.lanes.admit(p.sessionID)
	if err != nil {
		return nil, err
	}
	job, err := s.record(p, ticket, from.source)
	if err != nil {
		s.giveUp(ticket)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(turntoken.With(s.base, from.token))
	lt.turn, lt.response, lt.cancel = job.rec, job.emitter.Response(), cancel
	lt.input, lt.fragile, lt.base, lt.inbox = req.Input, cancelOnDisconnect(req), p.base, job.inbox
	v := lt.view() // before the turn can end and close its files
	begun = true
	go func() {
		defer s.running.Done()
		defer cancel(nil)
		s.run(ctx, lt, job)
	}()
	// The model is asked meanwhile; nothing is shown and no tool starts before.
	if err := job.rec.Acknowledge(); err != nil {
		cancel(record.ErrUnacknowledged)
		<-lt.done
		v.release()
		return nil, recordError(err)
	}
	return v, nil
}

// giveUp returns a ticket whose turn could not begin.
func (s *Server) giveUp(t *ticket) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if s.lanes.wait(done, t) == nil {
		s.lanes.leave(t)
	}
}

// plan resolves all that the request names. It changes nothing.
func (s *Server) plan(turnID string, req *responses.Request, mem *memory) (_ *plan, err error) {
	p := &plan{req: req, turnID: turnID}
	defer func() {
		if err != nil {
			p.offer.Release()
		}
	}()
	if err := checkBackground(req); err != nil {
		return nil, err
	}
	if p.transport, p.modelName, p.modelRef, err = s.parts.Models.Resolve(req.Model); err != nil {
		return nil, err
	}
	takes := model.CapabilitiesOf(p.transport, p.modelName)
	if err := s.planTools(p); err != nil {
		return nil, err
	}
	if err := turn.Check(req, p.toolset.Definitions(), takes); err != nil {
		return nil, err
	}
	if err := s.planInput(p, mem, takes); err != nil {
		return nil, err
	}
	if err := turn.CheckHistory(p.history, takes); err != nil {
		return nil, err
	}
	if err := s.planDirs(p); err != nil {
		return nil, err
	}
	s.tell(p)
	return p, nil
}

// planInput finds the conversation that the request continues and checks its
// input against it and against what the model takes.
func (s *Server) planInput(p *plan, mem *memory, takes model.Capabilities) error {
	history, session, from, err := s.recall(p.req.PreviousResponseID, mem)
	if err != nil {
		return err
	}
	// what is stored anew may rest on nothing that was deleted
	if from.response != p.req.PreviousResponseID && p.req.Store {
		if _, _, err := s.store.Chain(from.response); err != nil {
			from = base{}
		}
	}
	p.base, p.sessionID = from, p.req.Holon.SessionID
	if p.sessionID == "" {
		p.sessionID = session
	}
	if p.sessionID == "" {
		p.sessionID = responses.NewID(responses.PrefixSession)
	}
	if err := refuseContext(p.req.Input); err != nil {
		return err
	}
	known := conversation{items: history, find: s.findItem, accept: func(param string, item responses.Item) error {
		return turn.CheckReferred(param, item, takes)
	}}
	if p.req.Input, err = known.resolve(p.req.Input); err != nil {
		return err
	}
	identify(p.req.Input)
	if p.req.Store {
		p.unstored = history[from.n:]
	}
	if p.history, err = s.sealer.Expand("previous_response_id", history); err != nil {
		return err
	}
	p.input, err = s.sealer.Expand("input", p.req.Input)
	return err
}

// recall returns the conversation up to the response id, its session, and what
// of it is stored: from mem where that holds it, else from the store.
func (s *Server) recall(id string, mem *memory) (items []responses.Item, session string, from base, err error) {
	if id == "" {
		return nil, "", base{}, nil
	}
	if mem.holds(id) {
		return mem.items, mem.session, mem.base, nil
	}
	items, session, err = s.store.Chain(id)
	if errors.Is(err, record.ErrNotFound) {
		return nil, "", base{}, responses.PreviousNotFound(id)
	}
	if err != nil {
		return nil, "", base{}, responses.Internal("the stored conversation cannot be read", err)
	}
	return items, session, base{id, len(items)}, nil
}

// findItem returns a stored item, for references. record.ErrNotFound says that
// there is none.
func (s *Server) findItem(id string) (responses.Item, error) { return s.store.Item(s.base, id) }

// planDirs finds the turn's directories. Named ones must lie under the
// configured roots.
func (s *Server) planDirs(p *plan) (err error) {
	h := p.req.Holon
	p.turnDir = s.defaultDir(p.turnID)
	if h.OutputDir != "" {
		if p.turnDir, err = confine("holon.output_dir", s.cfg.Dirs.Output, h.OutputDir); err != nil {
			return err
		}
	}
	if h.InputDir != "" {
		if p.inputDir, err = confine("holon.input_dir", s.cfg.Dirs.Input, h.InputDir); err != nil {
			return err
		}
		if !isDir(p.inputDir) {
			return responses.Invalid("holon.input_dir", responses.CodeInvalidValue,
				fmt.Sprintf("there is no directory %s", p.inputDir))
		}
	} else if dir := filepath.Join(s.cfg.Dirs.Input, "turns", p.turnID); isDir(dir) {
		p.inputDir = dir
	}
	if h.WorkspaceDir != "" {
		if p.workDir, err = confine("holon.workspace_dir", s.cfg.Dirs.Workspace, h.WorkspaceDir); err != nil {
			return err
		}
		if !isDir(p.workDir) {
			return responses.Invalid("holon.workspace_dir", responses.CodeInvalidValue,
				fmt.Sprintf("there is no directory %s", p.workDir))
		}
		return nil
	}
	p.workDir = s.cfg.Dirs.Workspace
	if info, err := os.Stat(p.workDir); err != nil || !info.IsDir() { // the operator may have named a link
		p.workDir = p.turnDir
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// checkDisk refuses a turn while it could still be refused cleanly.
func (s *Server) checkDisk() error {
	for _, dir := range []string{s.cfg.Dirs.Output, s.cfg.Dirs.State} {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			return responses.Internal("the disk cannot be examined", err)
		}
		if free := int64(st.Bavail) * int64(st.Bsize); free < s.cfg.Turns.MinFree {
			return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDiskFull,
				Message: fmt.Sprintf("only %d MiB are free on the disk of %s", free>>20, dir),
				Hint:    "free some space, then send the request again"}
		}
	}
	return nil
}

// job is a recorded turn, ready to run.
type job struct {
	*plan
	ticket  *ticket
	rec     *record.Turn
	emitter *responses.Emitter
	scope   turns.Scope
	created time.Time

	inbox  *inbox
	watch  *activation.Watch // once the turn runs
	lead   prompt.Lead
	output *outputGauge // nil: there is no limit
}

// record writes the turn down and opens its stream. Once that is acknowledged, the
// turn exists.
func (s *Server) record(p *plan, t *ticket, source string) (*job, error) {
	now := s.parts.Now()
	resp := responses.NewResponse(responses.NewID(responses.PrefixResponse), p.modelRef, now.Unix(), p.req)
	if !t.started() {
		resp.Status = responses.StatusQueued
	}
	rec := turns.NewRecord(p.sessionID, p.turnID, &resp, p.req.Digest, s.instance, s.parts.Version, now)
	header := record.Header{
		ResponseID: resp.ID, PreviousResponseID: p.base.response, SessionID: p.sessionID, TurnID: p.turnID,
		TurnDir: p.turnDir, CreatedAt: now, RequestDigest: p.req.Digest, Instance: s.instance, Version: s.parts.Version,
		Response: resp,
	}
	if err := s.remember(p.turnID, p.turnDir); err != nil {
		return nil, recordError(err)
	}
	written, err := s.store.Begin(p.turnDir, rec, header, p.unstored, p.adding(p.req.Input), s.parts.Now)
	if errors.Is(err, record.ErrNotFound) { // it was deleted in this moment
		return nil, responses.PreviousNotFound(p.req.PreviousResponseID)
	}
	if err != nil {
		return nil, recordError(err)
	}
	j := &job{plan: p, ticket: t, rec: written, created: now}
	j.scope = turns.Scope{RuntimeID: s.instance, SessionID: p.sessionID, TurnID: p.turnID, Now: s.parts.Now}
	j.inbox = &inbox{rec: written, scope: j.scope}
	submitted := turns.Submitted{Source: source, ResponseID: resp.ID, PreviousResponseID: p.req.PreviousResponseID,
		RequestDigest: p.req.Digest}
	if err = written.Event(j.scope.TurnSubmitted(submitted, !t.started())); err == nil {
		j.emitter, err = responses.NewEmitter(resp, written.Sink())
	}
	if err == nil {
		j.emitter.Hide(s.parts.Secrets)
	}
	if err == nil {
		err = written.Prepare()
	}
	if err != nil {
		return nil, recordError(errors.Join(err, written.Discard()))
	}
	return j, nil
}

// environ is the environment of the turn's commands.
func (s *Server) environ(p *plan) []string {
	env := append(append([]string(nil), s.parts.Environ...), "HOLON_TURN_ID="+p.turnID, "HOLON_SESSION_ID="+p.sessionID,
		"HOLON_OUTPUT_DIR="+p.turnDir)
	if p.inputDir != "" {
		env = append(env, "HOLON_INPUT_DIR="+p.inputDir)
	}
	return env
}

// turn assembles the turn loop's view of the job.
func (s *Server) turn(j *job) *turn.Turn {
	// What the model was told at the beginning goes where a transport wants it;
	// all else stays in its place.
	lead, conversation := prompt.Split(append(append([]responses.Item(nil), j.history...), j.adding(j.input)...))
	j.lead = lead
	_, history := prompt.Split(j.history)
	j.watch = activation.NewWatch(j.skills, j.scope, j.workDir, home(s.parts.Environ))
	maxRounds := s.cfg.Turns.MaxRounds
	if l := j.req.Holon.Limits; l != nil && l.MaxRounds > 0 {
		maxRounds = min(maxRounds, l.MaxRounds)
	}
	var full func() bool
	if j.output != nil {
		full = j.output.full
	}
	req := *j.req
	req.Input = conversation[len(history):]
	return &turn.Turn{
		Request: &req, History: history, Instructions: lead.Text(), Breakpoints: lead.Breakpoints(),
		CacheKey: cacheKey(j.sessionID), Watcher: j.watch,
		Model: j.transport, ModelName: j.modelName, ModelRef: j.modelRef,
		Tools: j.toolset, Env: s.toolEnv(j), Notices: s.notices(j), Inbox: j.inbox,
		Secrets: s.parts.Secrets, Emitter: j.emitter, Journal: j.rec, Scope: j.scope, MaxRounds: maxRounds, Full: full,
		Now:    s.parts.Now,
		Window: s.cfg.Models.Window(j.modelRef), Memory: s.learned.of(j), Dir: j.turnDir,
	}
}

// timeout is the turn's wall time, from the moment it leaves the queue: how
// long others take is not its fault.
func (s *Server) timeout(req *responses.Request) time.Duration {
	d := s.cfg.Turns.Timeout
	if l := req.Holon.Limits; l != nil && l.TimeoutMS > 0 {
		d = min(d, time.Duration(l.TimeoutMS)*time.Millisecond)
	}
	return d
}
