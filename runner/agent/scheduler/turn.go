package scheduler

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// write writes the turn and its events.
func (s *step) write(a ledger.Attempt, e End, v outcome, out *Settlement) {
	failure := s.failure(a, e, v)
	if v.turn {
		s.writeTurn(a, e, v, failure, out)
		for _, f := range e.MemoryFiles {
			changed := f.Event()
			changed.TurnID = a.TurnID
			s.emit(record.MemoryMarkdown, changed, nil)
		}
	}
	if failure != nil && a.AbortedBy == "" { // what somebody asked for is no error
		s.state.LastFailure = failure
		s.writeFailure(a, e, v, *failure)
	}
	comesBack := v.entry == ledger.Queued // its next turn informs the operator
	asked := !v.turn && !v.failed         // aborted before it began, as somebody asked
	if !comesBack && !asked {
		s.writeBrief(a, e, failure, out.Closure)
	}
}

// failure is why the attempt failed, in words for the operator; nil when it did
// not fail.
func (s *step) failure(a ledger.Attempt, e End, v outcome) *ledger.Failure {
	if !v.failed {
		return nil
	}
	f := ledger.Failure{Code: "turn_aborted", Summary: "The turn was ended before the agent was done."}
	switch {
	case a.AbortedBy != "":
		f.Code, f.Summary = ledger.FailureAborted, "The turn was stopped by "+a.AbortedBy+"."
	case e.Failure != nil:
		f = *e.Failure
	case e.Lost:
		f.Code, f.Summary = "interrupted", "The turn was interrupted from outside and has no end."
	case e.Reason != "":
		f.Code = e.Reason
	}
	if f.OccurredAt.IsZero() {
		f.OccurredAt = s.now
	}
	if f.Phase == "" {
		f.Phase = "runtime_turn"
	}
	return &f
}

func (s *step) writeTurn(a ledger.Attempt, e End, v outcome, failure *ledger.Failure, out *Settlement) {
	t := e.Turn
	t.ID, t.AgentID, t.Index, t.AttemptID, t.MessageID = a.TurnID, a.AgentID, a.TurnIndex, a.ID, a.MessageID
	t.WorkItemID, t.WorkspaceID, t.Previous, t.Failure = a.WorkItemID, s.state.WorkspaceID(), a.Chain, failure
	if v.failed {
		t.Kind = ledger.TurnAborted
	}
	if t.Reason == "" && failure != nil {
		t.Reason = failure.Code
	}
	t.Timing = a.Timing
	s.times(a, &t)
	closure := s.closure(t, ledger.Attempt{}) // that of the turn has its end already
	t.Closure = closure
	s.insert(&t)
	out.Turn, out.Closure = &t, closure
	s.count(t, a)
	s.endTurn(a, t, v, s.emitArtifacts(a, e))
	s.emitClosure(closure, ledger.Event{MessageID: a.MessageID, TurnID: t.ID,
		Status: record.ThreadStatus(closure, s.state.Stopped)})
}

// times completes when a turn ran by what the ledger knows.
func (s *step) times(a ledger.Attempt, t *ledger.Turn) {
	if t.StartedAt.IsZero() {
		t.StartedAt = a.StartedAt
		if a.BegunAt != nil {
			t.StartedAt = *a.BegunAt
		}
	}
	if t.CompletedAt.IsZero() {
		t.CompletedAt = s.now
	}
	t.DurationMS = max(0, t.CompletedAt.Sub(t.StartedAt).Milliseconds())
}

// joins reports whether a turn became part of the agent's conversation.
func joins(t ledger.Turn, a ledger.Attempt) bool { return t.ResponseID != "" && !a.Renewed }

// count adds a turn to the agent's life.
func (s *step) count(t ledger.Turn, a ledger.Attempt) {
	s.state.Turns = t.Index
	if joins(t, a) {
		s.state.Chain, s.state.ClientCalls, s.state.WorkShown = t.ResponseID, t.ClientCalls, a.WorkShown
		s.state.Renewed = ""
	}
	s.keepSkills(t)
	if a.Compacted { // it may have forgotten what it was shown
		s.state.WorkShown = ""
	}
	s.state.Totals.ModelRounds += int64(t.ModelRounds)
	if u := used(t.Usage, t.Provider); u != nil {
		s.state.Totals.InputTokens += u.InputTokens
		s.state.Totals.OutputTokens += u.OutputTokens
		s.state.Totals.Estimated = s.state.Totals.Estimated || u.Estimated
		s.state.Totals.LastTurn = u
	}
}

// maxTimeline bounds the attempts at models in the event of a failure, in bytes.
const maxTimeline = 5 << 10

// used is what a turn used by what is known of its attempts at models, nil for nothing.
func used(u *turns.Usage, tried *turns.ProviderTimeline) *turns.Usage {
	if u == nil {
		return nil
	}
	return &turns.Usage{Usage: u.Usage, Estimated: u.Estimated ||
		tried != nil && tried.AggregatedTokenUsage != nil && tried.AggregatedTokenUsage.Estimated}
}

// writeFailure records a failure, with what was tried in short.
func (s *step) writeFailure(a ledger.Attempt, e End, v outcome, f ledger.Failure) {
	event := ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID}
	if v.entry == ledger.Queued {
		event.Level = record.LevelProgress
	}
	data := fields{"phase": clip(f.Phase), "code": clip(f.Code), "summary": clip(f.Summary)}
	if e.Provider != nil {
		data["provider_attempt_timeline"], data["token_usage"] = e.Provider.Within(maxTimeline), used(e.Usage, e.Provider)
	}
	s.emit(record.RuntimeError, event, data)
}

// writeBrief gives the operator the end: the answer, which may be empty, or why
// there is none.
func (s *step) writeBrief(a ledger.Attempt, e End, failure *ledger.Failure, c ledger.Closure) {
	b := ledger.Brief{Kind: ledger.BriefResult, Text: e.Last, MessageID: a.MessageID, TurnID: a.TurnID,
		WorkItemID: s.state.CurrentWork, TaskID: s.message(a.MessageID).TaskID, Attachments: attachments(a, e)}
	switch {
	case failure != nil:
		b.Kind, b.Text = ledger.BriefFailure, failure.Summary
		if failure.Hint != "" {
			b.Text += "\n" + failure.Hint
		}
	case s.goesOn(a):
		b.Kind = ledger.BriefAck
	}
	level, same := record.BriefLevel(c, b.Kind == ledger.BriefAck), s.notified(b.Text, a.StartedAt)
	if same != "" {
		level = record.LevelTrace
	}
	s.brief(b, level, same)
}

// attachments are the files that a turn left, for the operator. Outputs of tools belong to their calls.
func attachments(a ledger.Attempt, e End) (list []ledger.BriefFile) {
	for _, file := range e.Artifacts {
		if strings.HasPrefix(file.Path, turns.ToolsDir+"/") || len(list) == maxAttachments {
			continue
		}
		at := url.URL{Path: "/agents/" + a.AgentID + "/turns/" + a.TurnID + "/files/" + file.Path}
		list = append(list, ledger.BriefFile{Kind: "file", Name: clip(path.Base(file.Path)), URI: at.EscapedPath()})
	}
	return list
}

// brief gives the operator a brief, at a level. same is the notification that has its text, "" for none.
func (s *step) brief(b ledger.Brief, level int, same string) {
	b.ID, b.AgentID, b.CreatedAt = responses.NewID(prefixBrief), s.state.AgentID, s.now
	b.WorkspaceID = s.state.WorkspaceID()
	s.insert(&b)
	s.state.LastBriefAt = &s.now
	f := fields{"kind": string(b.Kind), "summary": cut(rules.Summary(b.Text), maxBriefSummary), "chars": len(b.Text),
		"work_item_id": b.WorkItemID, "duplicate_of": same}
	if b.Text = f.short("brief.text", b.Text); len(b.Attachments) > 0 { // events of their own tell of them
		b.Attachments = nil
		f.clipped("brief.attachments")
	}
	s.emit(record.BriefCreated, ledger.Event{Ref: b.ID, MessageID: b.MessageID, TurnID: b.TurnID, Level: level},
		f.with(record.RecordBrief, b))
}

// maxBriefSummary bounds what the event of a brief says of its text, in bytes.
const maxBriefSummary = 120

// goesOn reports whether the agent queued a next step of its own in the turn of an
// attempt: its last text is an acknowledgement then, not a result.
func (s *step) goesOn(a ledger.Attempt) bool {
	return slices.ContainsFunc(s.queue(), func(e ledger.Entry) bool {
		return !e.CreatedAt.Before(a.StartedAt) && s.message(e.MessageID).Kind == ledger.KindInternalFollowup
	})
}
