package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// Summary tells about an agent. Errors are *state.Error with ledger.CodeNotFound or codeAgentPrivate, or the store's.
func (s Snapshot) Summary(agentID string) (AgentSummary, error) {
	a, err := s.shown(agentID)
	if err != nil {
		return AgentSummary{}, err
	}
	at, err := s.agent(a)
	if err != nil {
		return AgentSummary{}, err
	}
	now, session, err := s.entered(at.stored)
	if err != nil {
		return AgentSummary{}, err
	}
	out := AgentSummary{
		Identity: s.identity(a), Agent: at.state(now, session), SchedulingPosture: at.Posture(), Lifecycle: at.Lifecycle(),
		Model: s.model(at), TokenUsage: tokens(at.stored.Totals), Closure: at.Closure(), Execution: s.execution(a, now),
		LoadedAgentsMD: loadedAgentsMD{Sources: append(s.agentsMD(a.ID), s.guidance(at.stored, now)...)},
		Skills:         ledger.Skills{Available: list(at.stored.Skills.Available), Active: list(at.stored.Skills.Active)},
		ActiveIntents:  intents(at.waits), ActiveWaits: list(at.waits),
	}
	if !state.IsChild(a.ID) {
		out.Budget = new(s.budget(a.ID, at.stored.Tree))
	}
	if out.ActiveTaskCount, err = s.ledger.CountOpenTasks(a.ID); err != nil {
		return out, err
	}
	if out.ActiveChildren, err = s.children(a.ID); err != nil {
		return out, err
	}
	if out.ActiveTriggers, err = activeTriggers(s.ledger, a.ID); err != nil {
		return out, err
	}
	if out.ActiveTimerCount, err = activeTimers(s.ledger, a.ID); err != nil {
		return out, err
	}
	notices, err := s.Notices(a.ID, recentOutbound)
	if err != nil {
		return out, err
	}
	out.Notifications, out.Deliveries = []ledger.Notification{}, []ledger.Delivery{}
	for _, n := range notices.Data {
		if n.Notification.ResolvedAt != nil {
			continue
		}
		out.Notifications = append(out.Notifications, n.Notification)
		out.Deliveries = append(out.Deliveries, n.Deliveries...)
	}
	briefs, err := s.ledger.Briefs(a.ID, recentWindow)
	if err != nil {
		return out, err
	}
	out.RecentBriefCount = len(briefs)
	page, err := s.ledger.Events(a.ID, ledger.EventQuery{Limit: 1, Descending: true})
	if err != nil {
		return out, err
	}
	if page.Newest > 0 {
		out.RecentEventCount = page.Newest - page.Oldest + 1
	}
	return out, nil
}

// List lists the public agents by id, at most maxAgents.
func (s Snapshot) List() ([]AgentListEntry, error) {
	agents, err := s.ledger.Agents()
	if err != nil {
		return nil, err
	}
	out := make([]AgentListEntry, 0, len(agents))
	for _, a := range agents {
		if a.Visibility == ledger.Private || len(out) == maxAgents {
			continue
		}
		at, err := s.agent(a)
		if state.IsCode(err, ledger.CodeUnreadable) { // the others can be read
			out = append(out, AgentListEntry{Identity: s.identity(a), Status: rules.Stopped, HasFailure: true,
				Execution: s.execution(a, WorkspaceEntry{}).Policy})
			continue
		}
		var now WorkspaceEntry
		if err == nil {
			now, _, err = s.entered(at.stored)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, AgentListEntry{
			Identity: s.identity(a), Status: at.Status(), SchedulingPosture: at.Posture(), Lifecycle: at.Lifecycle(),
			Pending:      at.Queued,
			CurrentRunID: at.RunID, WaitingReason: at.waitingReason(), SleepingUntil: turns.AtOptional(at.until()),
			Model:       s.model(at),
			LastBriefAt: turns.AtOptional(at.stored.LastBriefAt), HasFailure: at.stored.LastFailure != nil,
			ActiveWorkspace: &now, Execution: s.execution(a, now).Policy,
		})
	}
	return out, nil
}

// agentSnapshot is an agent at the agentSnapshot of a snapshot.
type agentSnapshot struct {
	rules.Situation
	agent   ledger.Agent
	stored  ledger.AgentState
	attempt *ledger.Attempt // that runs
	last    *ledger.Turn
	waits   []ledger.Wait
	work    int // open work items
}

// Lifecycle of a child: it takes messages of its parent alone, and is started with it.
func (at agentSnapshot) Lifecycle() rules.Lifecycle {
	l := at.Situation.Lifecycle()
	if at.agent.Ownership == ledger.ParentSupervised {
		l.AcceptsMessages, l.ResumeCLIHint, l.ResumeControlPath = false, "", ""
	}
	return l
}

func (s Snapshot) agent(a ledger.Agent) (agentSnapshot, error) {
	at := agentSnapshot{agent: a}
	at.AgentID, at.Archived, at.Booting = a.ID, a.ArchivedAt != nil, s.facts.Booting
	var err error
	if at.stored, err = s.ledger.AgentState(a.ID); err != nil {
		return at, err
	}
	at.Stopped = at.stored.Stopped
	attempt, open, err := s.ledger.OpenAttempt(a.ID)
	if err != nil {
		return at, err
	}
	if open {
		at.attempt, at.RunID = &attempt, attempt.TurnID
		page, err := s.ledger.Events(a.ID,
			ledger.EventQuery{After: attempt.Submitted, Limit: newestEvents, Descending: true})
		if err != nil {
			return at, err
		}
		at.Retrying = retrying(page.Events)
	}
	if at.Queued, err = s.ledger.CountQueued(a.ID); err != nil {
		return at, err
	}
	if head, ok, err := s.ledger.Head(a.ID); err != nil {
		return at, err
	} else if ok {
		at.Head(at.stored.Progress, head)
	}
	if at.waits, err = s.ledger.UnresolvedWaits(a.ID); err != nil {
		return at, err
	}
	at.Waits(at.waits)
	work, err := s.ledger.OpenWork(a.ID)
	if err != nil {
		return at, err
	}
	at.work, at.Work, at.Held = len(work), rules.WorkSignal(at.stored, work, at.waits), rules.Held(work, at.waits)
	at.Back = rules.HeldBack(at.stored, work, at.waits)
	turns, err := s.ledger.Turns(a.ID, 1)
	if err == nil && len(turns) > 0 {
		at.last = &turns[0]
		at.Ended, at.Failed, at.Aborted = true, turns[0].Failed(), turns[0].Stopped()
	}
	return at, err
}

// newestEvents is how far back the newest request to a model of a turn is looked for that waits to be made again.
const newestEvents = 50

// retrying says which model a turn asks again after a pause, and when, by its events, the newest first; "" when it is
// not in one.
func retrying(events []ledger.Event) string {
	for _, e := range events {
		var f turns.AttemptFailure
		switch {
		case e.Class == turns.ModelRequested, e.Class == turns.ModelCompleted:
			return ""
		case e.Class != turns.ModelFailed:
			continue
		case json.Unmarshal(e.Data, &f) != nil || f.ProviderAttempt == nil || f.ProviderAttempt.BackoffMS == 0:
			return ""
		}
		tried := f.ProviderAttempt
		at := tried.CompletedAt.Time().Add(time.Duration(tried.BackoffMS) * time.Millisecond)
		return fmt.Sprintf("%s at %s: %s", visible.OneLine(tried.ModelRef, 200), at.UTC().Format(time.RFC3339),
			visible.OneLine(tried.FailureKind, 50))
	}
	return ""
}

// waitingReason is what the agent waits for, "" for nothing.
func (at agentSnapshot) waitingReason() string {
	if c := at.Closure(); c != nil {
		return string(c.WaitingReason)
	}
	return ""
}

// until is when an agent that rests wakes by itself.
func (at agentSnapshot) until() *time.Time {
	if at.Status() != rules.Asleep || at.Wait == nil {
		return nil
	}
	return at.Wait.WakeAt
}

func (at agentSnapshot) state(now WorkspaceEntry, session *worktreeSession) agentState {
	total := at.stored.Totals
	s := agentState{
		ID: at.agent.ID, Status: at.Status(), SleepingUntil: turns.AtOptional(at.until()), CurrentRunID: at.RunID,
		Pending:           at.Queued,
		CurrentWorkItemID: at.stored.CurrentWork, OpenWorkItems: at.work,
		TurnIndex: at.stored.Turns, Revision: at.stored.Revision, LastWakeReason: at.stored.LastWake,
		LastBriefAt:       turns.AtOptional(at.stored.LastBriefAt),
		TotalMessageCount: total.Messages, TotalModelRounds: total.ModelRounds, TotalInputTokens: total.InputTokens,
		TotalOutputTokens:     total.OutputTokens,
		CompactedMessageCount: total.CompactedMessages,
		ToolLatency:           list(total.Tools), AttachedWorkspaces: attachedTo(at.stored),
		ActiveWorkspaceID: now.WorkspaceID,
		Cwd:               now.Cwd, WorktreeSession: session, ModelOverride: at.agent.Model,
		ModelOverrideEffort: at.agent.ReasoningEffort,
		PendingWakeHint:     hint(at.stored.PendingWake), LastTurnTerminal: terminal(at.last),
		LastContinuation:   at.stored.LastResolved,
		LastRuntimeFailure: at.stored.LastFailure, RetryAt: turns.AtOptional(at.RetryAt),
	}
	if at.attempt != nil {
		s.CurrentMessageID = at.attempt.MessageID
	}
	return s
}

func hint(h *ledger.WakeHint) *wakeHint {
	if h == nil {
		return nil
	}
	return &wakeHint{
		Reason: h.Reason, Description: h.Description, Source: h.Source, ExternalTriggerID: h.ExternalTriggerID,
		Resource:    h.Resource,
		ContentType: h.ContentType, Headers: h.Headers, BodyBytes: len(h.Body),
		CorrelationID: h.CorrelationID, CausationID: h.CausationID,
		CreatedAt: turns.At(h.CreatedAt), Coalesced: h.Coalesced, Also: h.Also,
		WaitingIntentIDs: h.WaitingIntentIDs, WorkItemIDs: h.WorkItemIDs,
	}
}

func terminal(t *ledger.Turn) *turnTerminal {
	if t == nil {
		return nil
	}
	return &turnTerminal{
		TurnID: t.ID, TurnIndex: t.Index, MessageID: t.MessageID, Kind: t.Kind, Reason: t.Reason,
		LastAssistantMessage: t.Last, Model: t.Model,
		TokenUsage: t.Usage, ModelRounds: t.ModelRounds, ToolCalls: t.ToolCalls, StartedAt: turns.At(t.StartedAt),
		CompletedAt: turns.At(t.CompletedAt), DurationMS: t.DurationMS,
	}
}

func (s Snapshot) identity(a ledger.Agent) identity {
	i := identity{
		AgentID: a.ID, Kind: a.Kind, Visibility: a.Visibility, Ownership: a.Ownership, ProfilePreset: a.Preset,
		Status: "active", IsDefaultAgent: a.ID == s.facts.DefaultAgent,
		ParentAgentID: a.ParentID, LineageParentID: a.LineageParentID, DelegatedFromTask: a.DelegatedFromTask,
		AgentHome: s.home(a.ID), Template: a.Template, Image: a.Image, CreatedAt: turns.At(a.CreatedAt),
	}
	if a.ArchivedAt != nil {
		i.Status = "archived"
	}
	return i
}

func (s Snapshot) home(agentID string) string {
	if s.facts.Home == nil {
		return ""
	}
	return s.facts.Home(agentID)
}

func (s Snapshot) agentsMD(agentID string) []AgentsMD {
	if s.facts.AgentsMD == nil {
		return []AgentsMD{}
	}
	return list(s.facts.AgentsMD(agentID))
}

// Model is which model an agent's next turn asks.
func (s Snapshot) Model(agentID string) (ModelState, error) {
	a, err := s.shown(agentID)
	if err != nil {
		return ModelState{}, err
	}
	at, err := s.agent(a)
	return s.model(at), err
}

// model: an override takes the place of the runtime's model; what that falls back to stays.
func (s Snapshot) model(at agentSnapshot) ModelState {
	m := ModelState{Source: ModelDefault, RuntimeDefaultModel: s.facts.Model, EffectiveModel: s.facts.Model}
	if at.agent.Model != "" {
		m.Source, m.EffectiveModel, m.OverrideModel, m.OverrideReasoningEffort = ModelOverride, at.agent.Model,
			at.agent.Model, at.agent.ReasoningEffort
	}
	m.EffectiveFallbackModels = list(rules.FallbackModels(m.EffectiveModel, s.facts.Fallbacks))
	switch {
	case at.attempt != nil:
		m.RequestedModel = cmp.Or(at.attempt.Model, m.RuntimeDefaultModel)
	case at.last != nil:
		m.RequestedModel = m.EffectiveModel
	}
	if at.last != nil {
		m.ActiveModel = at.last.Model
		m.FallbackActive = at.last.Model != "" && at.last.Model != m.EffectiveModel &&
			slices.Contains(m.EffectiveFallbackModels, at.last.Model)
	}
	return m
}

func tokens(t ledger.Totals) tokenUsage {
	u := tokenUsage{Total: turns.TokenUsage{InputTokens: t.InputTokens, OutputTokens: t.OutputTokens,
		TotalTokens: t.InputTokens + t.OutputTokens, Estimated: t.Estimated}, TotalModelRounds: t.ModelRounds}
	if l := t.LastTurn; l != nil {
		u.LastTurn = &turns.TokenUsage{InputTokens: l.InputTokens, OutputTokens: l.OutputTokens,
			TotalTokens: l.TotalTokens, Estimated: l.Estimated}
	}
	return u
}

// intents are the waits for something outside, in the words of 0.14.
func intents(waits []ledger.Wait) []waitingIntent {
	out := []waitingIntent{}
	for _, w := range waits {
		if w.Kind != ledger.WaitExternal || w.Status != ledger.WaitActive {
			continue
		}
		i := waitingIntent{ID: w.ID, AgentID: w.AgentID, Scope: "agent", Description: w.WaitingFor, Source: w.Source,
			Resource:     w.SubjectRef,
			DeliveryMode: ledger.DeliverWakeHint, Status: "active", CreatedAt: turns.At(w.CreatedAt)}
		if w.Owner != ledger.OwnerAgent {
			i.Scope, i.WorkItemID = "work_item", w.Owner
		}
		for _, src := range w.Wakes {
			if src.ExternalTriggerID != "" {
				i.ExternalTriggerID = src.ExternalTriggerID
			}
		}
		out = append(out, i)
	}
	return out
}

func activeTriggers(v ledger.View, agentID string) ([]Trigger, error) {
	found, err := v.Triggers(agentID)
	if err != nil {
		return nil, err
	}
	out := []Trigger{}
	for _, t := range found {
		if t.Status == ledger.TriggerActive && len(out) < maxTriggersShown {
			out = append(out, OfTrigger(t))
		}
	}
	return out, nil
}

func activeTimers(v ledger.View, agentID string) (int, error) {
	found, err := v.Timers(agentID, maxTimers)
	n := 0
	for _, t := range found {
		if t.Status == ledger.TimerActive {
			n++
		}
	}
	return n, err
}
