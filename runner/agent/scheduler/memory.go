package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/memory"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// maxRemembered bounds what of a text is looked at for memory, in bytes.
const maxRemembered = 4 << 10

// remember derives the agent's memory anew from a turn that has settled; nil where none was begun. A conversation that
// is too long begins anew with the next turn.
func (s *step) remember(a ledger.Attempt, v outcome, t *ledger.Turn) {
	if t == nil {
		return
	}
	before, known := ifAny(s, func(v ledger.View) (ledger.Memory, bool, error) { return v.Memory(s.state.AgentID) })
	m := before
	m.AgentID = s.state.AgentID
	shown := m.Current
	if a.Chain == "" {
		m.CuratedShown = nil
		m = s.leaveBehind(m)
		m.Began = s.first
		s.notifySmall(m)
		shown = memory.Within(m, a.WorkspaceID).Current
	}
	if joins(*t, a) {
		m = memory.Shown(m, a.MemoryShown, shown)
		if a.CuratedShown != nil { // else another process sent the prompt, and what it showed of the files is not known
			m.CuratedShown = a.CuratedShown
		}
		if !a.Readmit {
			m.Received++
		}
	}
	if a.Compacted { // the conversation may have forgotten what it was shown
		m = memory.Forgotten(s.leaveBehind(m), t.Index)
	}
	m, done := memory.Remember(m, s.evidence(a, *t))
	if m.Revision > before.Revision {
		s.emit(record.MemoryUpdated, ledger.Event{MessageID: a.MessageID, TurnID: t.ID},
			fields{"working_memory_revision": m.Revision, "delta": m.Pending})
	}
	for _, episode := range done {
		s.insert(&episode)
		s.emit(record.EpisodeFinalized, ledger.Event{MessageID: a.MessageID, TurnID: t.ID, Ref: episode.ID,
			Workspace: episode.WorkspaceID}, fields{"number": episode.Number, "boundary_reason": string(episode.Boundary),
			"start_turn_index": episode.StartTurn, "end_turn_index": episode.EndTurn,
			"current_work_item_id": episode.WorkItemID, "summary": episode.Summary})
	}
	if s.outgrown(m, v) {
		m = s.renew(m, t.Index)
	}
	if known {
		s.update(&m)
	} else {
		s.insert(&m)
	}
}

// leaveBehind counts the messages of a conversation that goes on without them, or that a summary stands for.
func (s *step) leaveBehind(m ledger.Memory) ledger.Memory {
	s.state.Totals.CompactedMessages += m.Received
	m.Received = 0
	return m
}

// evidence is what the ledger has of the agent after a turn, without known secrets.
func (s *step) evidence(a ledger.Attempt, t ledger.Turn) memory.Evidence {
	msg := s.message(a.MessageID)
	t.Last, t.Provider = cut(t.Last, maxRemembered), nil
	e := memory.Evidence{Now: s.now, Turn: t, Message: msg.Number,
		Rejoined: msg.Kind == ledger.KindTaskResult, Resumed: len(a.Waits) > 0,
		Work: s.item(s.state.CurrentWork), Item: s.item(cmp.Or(a.WorkItemID, s.state.CurrentWork)),
		Waits: s.waits(), Tasks: read(s, ledger.View.OpenTasks, s.state.AgentID), Followups: s.followups(),
		Scope: s.scope(), Calls: s.calls, EpisodeID: responses.NewID(prefixEpisode)}
	if task, ok := s.task(msg.TaskID); ok && e.Rejoined && task.Child() != nil {
		e.Child = &task
	}
	w := s.agentWait()
	e.Waiting = w != nil && w.Registered == a.ID || e.Item != nil && heldAs(*e.Item, e.Waits) != ""
	var clean memory.Evidence
	if err := json.Unmarshal(s.m.opts.Hide(mustJSON(e)), &clean); err != nil {
		s.fail(err)
	}
	return clean
}

// item is a work item of the agent, nil for none.
func (s *step) item(id string) *ledger.WorkItem {
	if w, ok := find(s, ledger.View.WorkItem, id); ok {
		return &w
	}
	return nil
}

// followups are the texts of the messages that the agent queued for itself.
func (s *step) followups() (texts []string) {
	for _, e := range s.queue() {
		if e.Sender != ledger.FromSelf {
			continue
		}
		if msg := s.message(e.MessageID); msg.Kind == ledger.KindInternalFollowup {
			texts = append(texts, rules.Summary(cut(msg.Body.Text, maxRemembered)))
		}
	}
	return texts
}

// scope is where the agent works, nothing for its home.
func (s *step) scope() []string {
	at := s.state.Active
	if at == nil {
		return nil
	}
	scope := []string{"workspace " + at.WorkspaceID, "tree " + at.Tree}
	if at.Cwd != "" {
		scope = append(scope, "directory "+at.Cwd)
	}
	return scope
}

// minReceived is how many messages a conversation has received when it is renewed although that saves little.
const minReceived = 4

// worthRenewing reports whether a conversation has received some messages, or would be half as large if it began anew.
// A budget that is less than what each conversation begins with, or little more, must not renew it with each turn.
func (s *step) worthRenewing(m ledger.Memory) bool {
	return m.Received >= minReceived || m.Began <= s.m.opts.ConversationBudget && s.window >= 2*m.Began
}

// notifySmall notifies the operator once of a budget that a conversation exceeds when it begins.
func (s *step) notifySmall(m ledger.Memory) {
	budget := s.m.opts.ConversationBudget
	if budget == 0 || m.Began <= budget {
		s.settleMatter(ledger.NoticeSmall, s.state.AgentID)
		return
	}
	n := s.notification(ledger.NoticeSmall, s.state.AgentID, fmt.Sprintf("The conversation of agent %s begins with more "+
		"than the %d tokens of runtime.conversation_budget, so it begins anew with every %dth message and keeps little. "+
		"Raise the budget, or set it to 0 to have no bound but the model's window.", s.state.AgentID, budget, minReceived))
	if n.ParentID == "" && s.notified(n.Message, time.Time{}) == "" {
		s.notify(n)
	}
}

// outgrown reports whether the conversation is larger than its budget and may begin anew. It goes on where something is
// promised of it: calls that the client is to answer are of its last response alone, and the message of a turn that was
// interrupted comes back to see what the turn did.
func (s *step) outgrown(m ledger.Memory, v outcome) bool {
	budget := s.m.opts.ConversationBudget
	return budget > 0 && s.window > budget && s.worthRenewing(m) && s.state.Chain != "" &&
		len(s.state.ClientCalls) == 0 && v.entry != ledger.Queued
}

// renew lets the conversation begin anew with the next turn, which is recorded as a compaction. A client may go on from
// its last response all the same: see ledger.AgentState.LastResponse.
func (s *step) renew(m ledger.Memory, turn int64) ledger.Memory {
	last := s.state.Chain
	s.beginAnew()
	s.state.Renewed = last
	s.state.Totals.Compactions++
	s.emit(turns.CompactionBegun, ledger.Event{Status: "running"},
		fields{"trigger": turns.TriggerMemory, "tokens_before": s.window})
	s.emit(turns.ContextCompacted, ledger.Event{Status: "completed"}, fields{"trigger": turns.TriggerMemory,
		"tokens_before": s.window, "tokens_allowed": s.m.opts.ConversationBudget, "epoch": s.state.Totals.Compactions,
		"summarized_items": m.Received, "working_memory_revision": m.Revision,
		"preserved": turns.Preserved{Actions: "all", Incidents: "all", Evidence: "all"}})
	return memory.Forgotten(s.leaveBehind(m), turn)
}
