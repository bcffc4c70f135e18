package agentd

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holon/agentd/activation"
	"holon/agentd/admission"
	"holon/agentd/prompt"
	"holon/agentd/record"
	"holon/agentd/tools"
	"holon/agentd/turn"
	"holon/responses"
	"holon/responses/turns"
	"holon/skills"
)

// job is a recorded turn, ready to run.
type job struct {
	*plan
	ticket  *admission.Ticket
	rec     *record.Turn
	emitter *responses.Emitter
	scope   turns.Scope
	created time.Time

	inbox  *inbox
	watch  *activation.Watch // once the turn runs
	lead   prompt.Lead
	output *outputGauge // nil without a limit
}

// record writes the turn down and opens its stream. Once that is acknowledged, the
// turn exists.
func (s *Server) record(p *plan, t *admission.Ticket, source string) (*job, error) {
	now := s.parts.Now()
	id, queued := p.req.Holon.ResponseID, !t.Started()
	resp := responses.NewResponse(cmp.Or(id, responses.NewID(responses.PrefixResponse)), p.Ref, now.Unix(), p.req)
	resp.Holon = &responses.TurnPlace{TurnID: p.turnID, SessionID: p.sessionID, OutputDir: s.shown(p.turnDir)}
	if id != "" { // its client was shown a queued response, and did not write the host's instructions
		queued, resp.Instructions = true, nil
	}
	if queued {
		resp.Status = responses.StatusQueued
	}
	rec := turns.NewRecord(p.sessionID, p.turnID, &resp, p.req.Digest, s.instance, s.parts.Version, now)
	rec.Skills, rec.IgnoredTools = p.skills.Names(), p.req.IgnoredTools
	header := record.Header{
		ResponseID: resp.ID, PreviousResponseID: p.stored.response, SessionID: p.sessionID, TurnID: p.turnID,
		ThreadID: p.at.ID, Facts: p.at.Facts, TurnDir: p.turnDir, CreatedAt: now, RequestDigest: p.req.Digest,
		Instance: s.instance, Version: s.parts.Version,
		Skills: rec.Skills, IgnoredTools: rec.IgnoredTools, Response: resp,
		ToolNames: toolNames(p.toolset.Definitions()),
	}
	s.placing.Lock()
	defer s.placing.Unlock() // what has begun is on disk
	if err := s.checkDir(p.turnID, p.turnDir, source == sourceRun); err != nil {
		return nil, err
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
	at, fork := written.Thread()
	j.scope = turns.Scope{RuntimeID: s.store.RuntimeID(), SessionID: p.sessionID, ThreadID: at.ID, TurnID: p.turnID,
		Trace: p.above.Child(p.turnID), Now: s.parts.Now}
	j.inbox = &inbox{rec: written, scope: j.scope}
	submitted := turns.Submitted{Source: source, ResponseID: resp.ID, PreviousResponseID: p.req.PreviousResponseID,
		RequestDigest: p.req.Digest, Traceparent: p.above.String(), Instance: s.instance}
	if at.Facts == 0 {
		err = written.Event(j.scope.ThreadStarted(fork))
	}
	if err == nil {
		err = written.Event(j.scope.TurnSubmitted(submitted, queued))
	}
	for _, fact := range j.scope.ClientAnswers(p.before, p.req.Input, at.Facts > 0) {
		if err == nil {
			err = written.Event(fact)
		}
	}
	if err == nil {
		j.emitter, err = responses.NewEmitter(resp, written.Sink())
	}
	if err == nil {
		j.emitter.Hide(s.parts.Secrets)
	}
	if err != nil {
		return nil, recordError(errors.Join(err, written.Discard()))
	}
	return j, nil
}

// environ is the environment of the turn's commands.
func (s *Server) environ(p *plan) []string {
	env := append(append([]string(nil), s.parts.Environ...), "HOLON_TURN_ID="+p.turnID, "HOLON_SESSION_ID="+p.sessionID,
		"HOLON_OUTPUT_DIR="+p.artifacts())
	if p.inputDir != "" {
		env = append(env, "HOLON_INPUT_DIR="+p.inputDir)
	}
	if p.private != nil {
		env = append(env, "GIT_CEILING_DIRECTORIES="+p.private.Ceiling())
	}
	return env
}

// turn is the turn loop of the job.
func (s *Server) turn(j *job) *turn.Turn {
	j.watch = activation.NewWatch(j.skills, j.scope, home(s.parts.Environ))
	// The lead of the conversation goes where a transport wants it; all else stays in its place.
	_, history := prompt.Split(j.history)
	lead, all := prompt.Split(slices.Concat(j.history, j.adding(j.input)))
	j.lead = lead
	watch := func(call *responses.ToolCall, o tools.Outcome, workDir string) []turns.RuntimeEvent {
		s.metrics.toolEnded(call.Name, o)
		var facts []turns.RuntimeEvent
		s.parts.Users.Do(func() { facts = j.watch.ToolEnded(call, o, workDir) }) // which reads files of commands
		return facts
	}
	t := &turn.Turn{
		Request: j.req, History: all[:len(history)], Input: all[len(history):], Model: j.Choice,
		Prompt:   turn.Prompt{Text: lead.Text(), Breakpoints: lead.Breakpoints()},
		RetryFor: s.cfg.Models.RetryFor, Tools: j.toolset, Env: s.toolEnv(j), Notices: s.notices(j), Inbox: j.inbox,
		Emitter: j.emitter, Journal: j.rec, Scope: j.scope, MaxRounds: j.limits.rounds,
		Window: s.cfg.Models.Window(j.Ref), Memory: s.memories.of(modelKey(j)), Dir: j.turnDir,
		Families: families(), Watch: watch, FindDir: j.finder(s),
	}
	if j.output != nil {
		t.Full = j.output.full
	}
	return t
}

// kindWorkDir is the kind of the error of a call whose result directs a working directory that cannot be used.
const kindWorkDir = "working_directory_unusable"

// finder finds the working directories that results direct. An isolated turn stays in its private tree.
func (j *job) finder(s *Server) func(name string) (string, *tools.Error) {
	return func(name string) (dir string, bad *tools.Error) {
		err := errors.New("the turn works in a private tree")
		if j.private == nil {
			s.parts.Users.Do(func() { dir, err = s.treeAt("working_directory", name) })
		}
		if err != nil {
			return "", &tools.Error{Kind: kindWorkDir, Message: "the working directory stays as it was: " + err.Error(),
				RecoveryHint: "go on where you are, and say so in your answer", Details: map[string]any{"work_dir": name}}
		}
		return dir, nil
	}
}

// maxSkillNames bounds the skills that a turn names as left out.
const maxSkillNames = 8

// leftOut warns of the skills that cannot be used: what is wrong with the first, and the names of the others.
func (j *job) leftOut(problems []skills.InvalidSkill) turns.RuntimeEvent {
	n := turns.Notice{Code: string(problems[0].Code), Component: "skills", Recoverable: true,
		Message: "a skill is left out: " + problems[0].Error() + "; " + problems[0].Hint}
	if len(problems) > 1 {
		var names []string
		for _, p := range problems[:min(len(problems), maxSkillNames)] {
			names = append(names, filepath.Base(strings.TrimSuffix(p.Path, "/"+skills.File)))
		}
		if more := len(problems) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more, which debug prompt names", more))
		}
		n.Message = fmt.Sprintf("%d skills are left out: %s; %s; %s", len(problems), strings.Join(names, ", "),
			problems[0].Error(), problems[0].Hint)
	}
	return j.scope.Warning(n)
}

// offerFacts are the facts about its tree, skills, servers and their tools that the turn begins with.
func (j *job) offerFacts() (facts []turns.RuntimeEvent) {
	facts = j.branched()
	if len(j.skills.Problems) > 0 {
		facts = append(facts, j.leftOut(j.skills.Problems))
	}
	if j.offer == nil {
		return facts
	}
	for _, note := range j.offer.Notes {
		facts = append(facts, j.scope.Warning(turns.Notice{Code: note.Code, Message: note.Message, Component: "mcp",
			Recoverable: true}))
	}
	return facts
}
