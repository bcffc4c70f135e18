package scheduler

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// admittedEvent is the id of the event with which a message was admitted, and submittedEvent
// that of the event with which the turn of an attempt began: what follows names them as its
// cause.
func admittedEvent(messageID string) string  { return derivedID(responses.PrefixEvent, messageID) }
func submittedEvent(attemptID string) string { return derivedID(responses.PrefixEvent, attemptID) }

// interjectedEvent is the id of the event with which a message was bound to the turn of an attempt.
func interjectedEvent(attemptID, messageID string) string {
	return derivedID(responses.PrefixEvent, attemptID, messageID)
}

// factEvent is the id of the event of a fact that a container recorded in a turn, by its number there.
func factEvent(turnID string, seq int64) string {
	return derivedID(responses.PrefixEvent, turnID, strconv.FormatInt(seq, 10))
}

// maxOpen bounds what a turn may have open at once; what a container begins beyond it is not closed for it.
const maxOpen = 1000

// track notes what an event of a turn begins and ends. An event that ends something was caused
// by the one that began it.
func (s *step) track(a *ledger.Attempt, e *ledger.Event) {
	family, ok := agentruntime.FamilyOf(e.Class)
	if !ok || family.Name == "turn" || family.Name == "action" {
		return
	}
	at := openUnit(a, family, e)
	switch {
	case e.Class == family.Open && at < 0 && len(a.Open) < maxOpen:
		u := ledger.Unfinished{Class: e.Class, Event: e.ID, Seq: s.state.EventSeq + int64(len(s.events)), IDs: e.IDs,
			WorkItemID: s.state.CurrentWork}
		if e.Class == turns.ToolStarted {
			var b turns.Begun
			_ = json.Unmarshal(e.Data, &b) // one that is wrong has no name
			u.Call = clip(b.CallID)
		}
		a.Open = append(a.Open, u)
	case at >= 0 && e.Class != family.Open:
		e.Cause = a.Open[at].Event
		if slices.Contains(family.Close, e.Class) {
			a.Open = slices.Delete(a.Open, at, at+1)
		}
	}
}

// openUnit is the index in a.Open of what an event of the family is about, -1 for none.
func openUnit(a *ledger.Attempt, family agentruntime.Family, e *ledger.Event) int {
	return slices.IndexFunc(a.Open, func(u ledger.Unfinished) bool {
		return u.Class == family.Open && (family.ID == agentruntime.Thread || u.IDs[family.ID] == e.IDs[family.ID])
	})
}

// workOf is the work item that was current when the thing at an index of a.Open began: a call that picks or completes
// an item is carried out only after its beginning is recorded. For the index -1 it is the one that is current now.
func (s *step) workOf(a ledger.Attempt, at int) string {
	if at >= 0 {
		return a.Open[at].WorkItemID
	}
	return s.state.CurrentWork
}

// closings are the classes by which the host ends what a turn has left open.
var closings = map[string]string{
	"model.requested":            "model.failed",
	"tool.started":               "tool.failed",
	"process.started":            "process.failed",
	"context.compaction.started": "context.compaction.failed",
	"task.attempt.started":       "task.attempt.failed",
}

// closeOpen ends what the turn of an attempt has begun and not ended, before the turn itself, and returns what the log
// has of the turn then.
func (s *step) closeOpen(a ledger.Attempt, v outcome) record.Recorded {
	turn, begun := s.logged(a)
	s.first, s.window = turn.FirstInput, turn.LastInput
	for _, u := range slices.Backward(a.Open) { // a process before the call that started it
		class, ok := closings[u.Class]
		if !ok {
			continue
		}
		first := len(s.events)
		e := ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Class: class, Status: "failed", IDs: u.IDs,
			Cause: u.Event}
		if class == turns.ToolFailed {
			e.Ref, e.Workspace = u.WorkItemID, s.state.WorkspaceID()
		}
		s.emit(class, e, s.cutOff(begun[u.Seq], class, v))
		if class == turns.ModelFailed {
			s.costOfCutOff(a, begun[u.Seq], u)
		}
		for _, e := range s.events[first:] {
			turn.Apply(e)
		}
	}
	return turn
}

// logged is what the log has of the turn of an attempt, with the events that began what is open, by their numbers.
func (s *step) logged(a ledger.Attempt) (turn record.Recorded, begun map[int64]ledger.Event) {
	begun = make(map[int64]ledger.Event)
	for _, u := range a.Open {
		begun[u.Seq] = ledger.Event{CreatedAt: a.StartedAt} // retention may have let go of it
	}
	for after := a.Submitted; after < s.state.EventSeq; {
		page := ask(s, func(v ledger.View) ([]ledger.Event, error) { return v.EventsAfter(a.AgentID, after) })
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if after = e.Seq; e.TurnID != a.TurnID {
				continue
			}
			turn.Apply(e)
			s.calls.Apply(e)
			if _, open := begun[e.Seq]; open {
				begun[e.Seq] = e
			}
		}
	}
	return turn, begun
}

// cutOff is the payload of the end of what an event began and a turn did not end.
func (s *step) cutOff(begun ledger.Event, class string, v outcome) fields {
	category := "cancelled"
	if v.attempt == ledger.AttemptInterrupted {
		category = "interrupted"
	}
	f := fields{"failure_category": category, "retryable": false, "message": "the turn ended before it did"}
	took := max(0, turns.At(s.now).Sub(turns.At(begun.CreatedAt)).Milliseconds())
	switch class { // what is wrong with a payload is left out
	case turns.ToolFailed:
		var b turns.Begun
		_ = json.Unmarshal(begun.Data, &b)
		f["tool_name"], f["duration_ms"] = clip(b.ToolName), took
		f["call"] = clip(record.CallOf(begun.Data).Text)
	case turns.CompactionFailed:
		var c turns.CompactionStart
		_ = json.Unmarshal(begun.Data, &c)
		f["trigger"], f["round"] = clip(c.Trigger), c.Round
	case turns.ModelFailed:
		var r turns.Requested
		_ = json.Unmarshal(begun.Data, &r)
		tokens := sent(r)
		f["outcome"], f["duration_ms"] = turns.OutcomeFailFast, took
		f["provider_attempt"] = turns.ProviderAttempt{Provider: clip(r.ProviderName),
			ModelRef: clip(r.ProviderName + "/" + r.ModelName), Round: r.Round, Attempt: r.Attempt,
			MaxAttempts: r.MaxAttempts, Purpose: clip(r.Purpose), StartedAt: turns.At(begun.CreatedAt),
			CompletedAt: turns.At(s.now), DurationMS: took, FailureKind: "interrupted", Disposition: "fail_fast",
			Outcome: turns.OutcomeFailFast, TokenUsage: &tokens}
	case turns.ProcessFailed: // how it ended is not known, also where the turn was cancelled
		f["failure_category"] = "lost"
	}
	return f
}

// sent is what a request to a model took that was cut off: no more is known than how much it was sent.
func sent(r turns.Requested) turns.TokenUsage {
	in := min(max(int64(r.EstimatedTokens), 0), record.MaxTokens)
	return turns.TokenUsage{InputTokens: in, TotalTokens: in, Estimated: true}
}

// costOfCutOff records what a request took that was cut off.
func (s *step) costOfCutOff(a ledger.Attempt, begun ledger.Event, u ledger.Unfinished) {
	var r turns.Requested
	if json.Unmarshal(begun.Data, &r) != nil {
		return
	}
	used := sent(r)
	e := ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Cause: u.Event,
		Data: mustJSON(turns.Cost{Usage: &used, Amount: "unknown", PriceSource: "unknown"})}
	e.IDs[agentruntime.ModelRequest] = u.IDs[agentruntime.ModelRequest]
	s.emit(turns.CostRecorded, e, nil)
}

// completed is the end of a turn with what the log has of it, where the end does not say: its container was lost.
func (e End) completed(t record.Recorded) End {
	e.Model, e.Provider = cmp.Or(e.Model, t.Model()), cmp.Or(e.Provider, t.Provider)
	if e.Usage == nil && t.Usage != nil {
		e.Usage = new(turns.UsageOf(*t.Usage))
	}
	e.ModelRounds, e.ToolCalls = max(e.ModelRounds, t.ModelRounds), max(e.ToolCalls, t.ToolCalls)
	return e
}

// maxArtifactEvents bounds the files of a turn that its record lists. Its turn.json has them all.
const maxArtifactEvents = 50

// emitArtifacts records the files that a turn left in its directory, and returns how many it left out. Outputs of
// tools are recorded with their calls.
func (s *step) emitArtifacts(a ledger.Attempt, e End) (omitted int) {
	listed := 0
	for _, file := range e.Artifacts {
		if strings.HasPrefix(file.Path, turns.ToolsDir+"/") {
			continue
		}
		if listed++; listed > maxArtifactEvents {
			omitted++
			continue
		}
		id := derivedID("artifact_", a.TurnID, file.Path)
		event := ledger.Event{ID: derivedID(responses.PrefixEvent, id), MessageID: a.MessageID, TurnID: a.TurnID}
		event.IDs[agentruntime.Artifact] = id
		s.emit(record.ArtifactChanged, event, fields{"op": "created", "kind": "file", "path": clip(file.Path),
			"read_ref": "turns/" + a.TurnID + "/" + clip(file.Path), "size_bytes": file.Bytes,
			"digest": "sha256:" + clip(file.SHA256)})
	}
	return omitted
}

// endTurn records the end of a turn, and how many of its files are not listed.
func (s *step) endTurn(a ledger.Attempt, t ledger.Turn, v outcome, omitted int) {
	class, status := record.TurnEnd(v.attempt, t.Kind,
		v.entry == ledger.Aborted && a.AbortedBy != "" || v.reason == record.TurnSuspended)
	f := fields{"kind": string(t.Kind), "reason": clip(t.Reason), "turn_index": t.Index, "duration_ms": t.DurationMS,
		"started_at": t.StartedAt, "completed_at": t.CompletedAt,
		"model_rounds": t.ModelRounds, "tool_calls": t.ToolCalls, "response_id": t.ResponseID,
		"model": clip(t.Model), "usage": used(t.Usage, t.Provider)}
	if f["last_assistant_message"] = f.short("turn.last_assistant_message", t.Last); t.Last == "" {
		delete(f, "last_assistant_message")
	}
	if omitted > 0 {
		f["artifacts_omitted"] = omitted
	}
	if class == record.TurnFailed {
		f = f.failed(t.Failure, status, v)
	}
	s.emit(record.TurnTerminal, ledger.Event{MessageID: a.MessageID, TurnID: t.ID, Workspace: t.WorkspaceID, Class: class,
		Status: status}, f)
}

// endNotBegun records that the turn of an attempt was never begun.
func (s *step) endNotBegun(a ledger.Attempt, e End, v outcome) {
	status := "failed"
	if !v.failed {
		status = "cancelled"
	}
	s.emit(record.TurnFailed, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Workspace: s.state.WorkspaceID(),
		Status: status},
		fields{"reason": clip(v.reason)}.failed(e.Failure, status, v))
}

// failed adds why a turn failed. It may be tried again when its message is queued.
func (f fields) failed(why *ledger.Failure, status string, v outcome) fields {
	if why == nil {
		why = &ledger.Failure{Summary: v.reason}
	}
	f["failure_category"], f["message"] = cmp.Or(clip(why.Code), status), cmp.Or(clip(why.Summary), status)
	f["retryable"] = v.entry == ledger.Queued
	return f
}
