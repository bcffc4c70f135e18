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
func (s *step) track(a *ledger.Attempt, e *ledger.Event, p Progress) {
	family, ok := agentruntime.FamilyOf(e.Class)
	if !ok || family.Name == "turn" || family.Name == "action" {
		return
	}
	at := openUnit(a, family, e)
	switch {
	case e.Class == family.Open && at < 0 && len(a.Open) < maxOpen:
		u := unfinished(e, p)
		u.WorkItemID = s.state.CurrentWork
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

// openCall is the index in a.Open of a call of a tool, -1 for none.
func openCall(a ledger.Attempt, id string) int {
	return slices.IndexFunc(a.Open, func(u ledger.Unfinished) bool {
		return u.Class == turns.ToolStarted && u.IDs[agentruntime.ToolCall] == id
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

// unfinished is what an event begins, with what its end needs in case that it is cut off.
func unfinished(e *ledger.Event, p Progress) ledger.Unfinished {
	u := ledger.Unfinished{Class: e.Class, Event: e.ID, IDs: e.IDs, Tool: p.ToolName}
	switch e.Class { // what is wrong with a payload is left out
	case turns.ToolStarted:
		var b turns.Begun
		_ = json.Unmarshal(e.Data, &b)
		u.Call, u.At, u.Does, u.Input, u.Round = clip(b.CallID), turns.At(e.CreatedAt), p.Does, p.Input, p.Round
		u.Tool = cmp.Or(u.Tool, clip(b.ToolName))
	case turns.ModelRequested:
		u.Request, u.At = &turns.Requested{}, turns.At(e.CreatedAt)
		_ = json.Unmarshal(e.Data, u.Request)
	case turns.CompactionBegun:
		var c turns.CompactionStart
		_ = json.Unmarshal(e.Data, &c)
		u.Trigger, u.Round = clip(c.Trigger), c.Round
	}
	return u
}

// closings are the classes by which the host ends what a turn has left open.
var closings = map[string]string{
	"model.requested":            "model.failed",
	"tool.started":               "tool.failed",
	"process.started":            "process.failed",
	"context.compaction.started": "context.compaction.failed",
	"hook.started":               "hook.failed",
	"task.attempt.started":       "task.attempt.failed",
}

// closeOpen ends what the turn of an attempt has begun and not ended, before the turn itself.
func (s *step) closeOpen(a *ledger.Attempt, v verdict) error {
	category := "cancelled"
	if v.attempt == ledger.AttemptInterrupted {
		category = "interrupted"
	}
	var round ledger.Event                      // of the request for an answer
	for _, u := range slices.Backward(a.Open) { // a process before the call that started it
		class, ok := closings[u.Class]
		if !ok {
			continue
		}
		f := facts{"failure_category": category, "retryable": false, "message": "the turn ended before it did",
			"tool_name": u.Tool}
		typ := class
		switch class {
		case turns.ToolFailed:
			typ = record.ToolExecuted
			if err := s.cutOffCall(*a, u, category, f); err != nil {
				return err
			}
		case turns.CompactionFailed:
			f["trigger"], f["round"] = u.Trigger, u.Round
		case "hook.failed":
			f["fail_mode"] = "open"
		case turns.ModelFailed:
			f["outcome"] = turns.OutcomeFailFast
		case turns.ProcessFailed: // how it ended is not known, also where the turn was cancelled
			f["failure_category"] = "lost"
		}
		s.emit(typ, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Class: class, Status: "failed", IDs: u.IDs,
			Cause: u.Event}, f)
		count(a, class, nil) // a call that was begun is one of the turn's
		if class == turns.ModelFailed {
			if u.Request != nil && u.Request.Purpose == "" {
				round = ledger.Event{IDs: u.IDs, Cause: s.newest()}
			}
			s.cutOff(a, u)
		}
	}
	return s.tellCutRound(*a, round)
}

// maxTold bounds the files of a turn that its record tells of. Its turn.json has them all.
const maxTold = 50

// tellArtifacts tells of the files that a turn left in its directory, and returns how many it left out. Outputs of
// tools are told of with their calls.
func (s *step) tellArtifacts(a ledger.Attempt, e End) (omitted int) {
	told := 0
	for _, file := range e.Artifacts {
		if strings.HasPrefix(file.Path, turns.ToolsDir+"/") {
			continue
		}
		if told++; told > maxTold {
			omitted++
			continue
		}
		id := derivedID("artifact_", a.TurnID, file.Path)
		event := ledger.Event{ID: derivedID(responses.PrefixEvent, id), MessageID: a.MessageID, TurnID: a.TurnID}
		event.IDs[agentruntime.Artifact] = id
		s.emit(record.ArtifactChanged, event, facts{"op": "created", "kind": "file", "path": clip(file.Path),
			"read_ref": "turns/" + a.TurnID + "/" + clip(file.Path), "size_bytes": file.Bytes,
			"digest": "sha256:" + clip(file.SHA256)})
	}
	return omitted
}

// endTurn tells the end of a turn, and how many of its files were not told of.
func (s *step) endTurn(a ledger.Attempt, t ledger.Turn, v verdict, omitted int) {
	class, status := record.TurnEnd(v.attempt, t.Kind,
		v.entry == ledger.Aborted && a.AbortedBy != "" || v.reason == record.TurnSuspended)
	f := facts{"kind": string(t.Kind), "reason": clip(t.Reason), "turn_index": t.Index, "duration_ms": t.DurationMS,
		"started_at": t.StartedAt, "completed_at": t.CompletedAt,
		"model_rounds": t.ModelRounds, "tool_calls": t.ToolCalls, "response_id": t.ResponseID,
		"model": clip(t.Model), "usage": used(t.Usage, t.Provider)}
	if omitted > 0 {
		f["artifacts_omitted"] = omitted
	}
	if class == record.TurnFailed {
		f = f.failed(t.Failure, status, v)
	}
	s.emit(record.TurnTerminal, ledger.Event{MessageID: a.MessageID, TurnID: t.ID, Class: class, Status: status}, f)
}

// endNotBegun tells that the turn of an attempt was never begun.
func (s *step) endNotBegun(a ledger.Attempt, e End, v verdict) {
	status := "failed"
	if !v.failed {
		status = "cancelled"
	}
	s.emit(record.TurnFailed, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Status: status},
		facts{"reason": clip(v.reason)}.failed(e.Failure, status, v))
}

// failed adds why a turn failed. It may be tried again when its message is queued.
func (f facts) failed(why *ledger.Failure, status string, v verdict) facts {
	if why == nil {
		why = &ledger.Failure{Summary: v.reason}
	}
	f["failure_category"], f["message"] = cmp.Or(clip(why.Code), status), cmp.Or(clip(why.Summary), status)
	f["retryable"] = v.entry == ledger.Queued
	return f
}
