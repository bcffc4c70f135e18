package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Bounds of work items.
const (
	maxOpenWork  = 200     // of one agent
	maxObjective = 4 << 10 // bytes
	maxTodos     = 100
	maxTodo      = 500 // bytes of the text of one
	maxBlocker   = 1000
	maxRecheck   = 366 * 24 * time.Hour
	maxCalls     = 16 // newest calls that an item keeps
)

// NewWork is a work item to be made.
type NewWork struct {
	AgentID    string
	Key        string // of the call or the request: the same makes it once
	Objective  string
	PlanStatus ledger.PlanStatus // "": draft
	Todo       []ledger.Todo
}

// WorkChange changes a work item. Nil fields stay as they are.
type WorkChange struct {
	Objective    *string
	PlanStatus   *ledger.PlanStatus
	Todo         *[]ledger.Todo // all of them
	BlockedBy    *string        // "": nothing any more
	RecheckAfter time.Duration  // with a BlockedBy; 0: rules.DefaultRecheck
	Via          string         // how the operator decided; "": the agent did
}

// CreateWork makes an open work item. It takes the agent's attention from nothing: the agent picks it. The same key
// returns the item that it made, as it is now; made says whether this call did. Errors: CodeInvalidWork,
// CodeWorkLimit, CodeKeyConflict, CodeAgentArchived, ledger.CodeNotFound.
func (m *Scheduler) CreateWork(ctx context.Context, n NewWork) (w ledger.WorkItem, made bool, err error) {
	n.PlanStatus = cmp.Or(n.PlanStatus, ledger.PlanDraft)
	if err := checkNewWork(n); err != nil {
		return w, false, err
	}
	err = m.step(ctx, n.AgentID, func(s *step) error {
		w, made = s.newWork(n), false
		if old, known := find(s, ledger.View.WorkItem, w.ID); known {
			if old.Made != w.Made {
				return refused(CodeKeyConflict, "idempotency_key", "use another key for another work item",
					"the key was used for work item %s, which was made with something else", old.ID)
			}
			w = old
			return nil
		}
		if err := s.checkLive(); err != nil {
			return err
		}
		open := read(s, ledger.View.OpenWork, n.AgentID)
		if len(open) >= maxOpenWork {
			return refused(CodeWorkLimit, "agent_id", "complete some of them first",
				"agent %s has %d open work items, and no more may be open", n.AgentID, len(open))
		}
		made = true
		s.emitWork(record.WorkItemWritten, "task.created", w, fields{"op": "create"})
		s.emitWork(record.WorkItemWritten, "task.accepted", w, fields{"op": "create"})
		s.emitHold("create", "", "", heldAs(w, nil), &w, nil)
		w.Step = s.number()
		s.insert(&w)
		s.needsInput(w, ledger.PlanDraft)
		s.worked()
		return nil
	})
	return w, made, err
}

// needsInput notifies the operator of an item whose plan needs input, when that was not so before.
func (s *step) needsInput(w ledger.WorkItem, before ledger.PlanStatus) {
	if w.PlanStatus != ledger.PlanNeedsInput || before == ledger.PlanNeedsInput {
		return
	}
	n := s.notification(ledger.NoticeInput, w.ID, fmt.Sprintf("Agent %s needs your input for: %s", s.state.AgentID,
		w.Objective))
	if w.BlockedBy != "" {
		n.Message += "\n\nBlocked by: " + w.BlockedBy
	}
	n.WorkItemID = w.ID
	s.notify(n)
}

// goOn lets an idle agent go on by itself from the beginning, also one that had to ask its operator.
func (s *step) goOn() {
	if w := s.agentWait(); w != nil && w.Status == ledger.WaitActive && w.Source == sourceProgress {
		s.cancelWait(*w, "the operator changed a work item")
	}
	s.fresh()
	s.freeWork()
}

func (s *step) newWork(n NewWork) ledger.WorkItem {
	w := ledger.WorkItem{ID: derivedID(prefixWork, n.AgentID, n.Key), AgentID: n.AgentID, Revision: 1,
		WorkspaceID: s.state.WorkspaceID(), Objective: n.Objective, State: ledger.WorkOpen, PlanStatus: n.PlanStatus,
		Todo:      n.Todo,
		CreatedAt: s.now,
		UpdatedAt: s.now, Made: derivedID("", n.Objective, string(mustJSON(n.Todo)), string(n.PlanStatus)),
		Calls: []string{n.Key}}
	if w.Todo == nil {
		w.Todo = []ledger.Todo{}
	}
	w.Event = derivedID(responses.PrefixEvent, w.AgentID, w.ID)
	return w
}

// PickWork makes an open item of the agent its current one. Errors: CodeWorkCompleted, ledger.CodeNotFound.
func (m *Scheduler) PickWork(ctx context.Context, agentID, itemID, key string) (ledger.WorkItem, error) {
	return m.workStep(ctx, agentID, itemID, key, func(s *step, w *ledger.WorkItem) bool {
		if s.state.CurrentWork == w.ID {
			return false
		}
		s.releaseFocus("another one was picked")
		s.state.CurrentWork = w.ID
		s.start(w)
		s.emitWork(record.WorkItemPicked, "", *w, nil)
		return true
	})
}

// start notes that an item was worked on for the first time.
func (s *step) start(w *ledger.WorkItem) {
	if w.PickedAt == nil {
		w.PickedAt = &s.now
		s.emitWork(record.WorkItemWritten, "task.started", *w, fields{"op": "start"})
	}
}

// UpdateWork changes an open item of the agent. Errors: CodeInvalidWork, CodeWorkCompleted, ledger.CodeNotFound.
func (m *Scheduler) UpdateWork(ctx context.Context, agentID, itemID, key string, c WorkChange) (ledger.WorkItem,
	error) {
	if err := checkWorkChange(c); err != nil {
		return ledger.WorkItem{}, err
	}
	return m.workStep(ctx, agentID, itemID, key, func(s *step, w *ledger.WorkItem) bool {
		before, plan := mustJSON(*w), w.PlanStatus
		held := heldAs(*w, s.waits())
		if c.Objective != nil {
			w.Objective = *c.Objective
		}
		if c.PlanStatus != nil {
			w.PlanStatus = *c.PlanStatus
		}
		if c.Todo != nil {
			w.Todo = slices.Clone(*c.Todo)
		}
		if c.BlockedBy != nil {
			s.block(w, *c.BlockedBy, c.RecheckAfter)
		}
		if string(before) == string(mustJSON(*w)) {
			return s.unblocked(*w, c)
		}
		s.emitHeld(held, w, c.Via)
		s.needsInput(*w, plan)
		s.unblocked(*w, c)
		return true
	})
}

// heldAs is what keeps an item from going on, "" for nothing. waits are those of its agent.
func heldAs(w ledger.WorkItem, waits []ledger.Wait) rules.WorkState {
	if held := rules.Scheduling(w, waits); held != rules.WorkRunnable && held != rules.WorkCompleted {
		return held
	}
	return ""
}

// emitHeld records a changed item, which was held by what before says.
func (s *step) emitHeld(before rules.WorkState, w *ledger.WorkItem, via string) {
	waits := s.waits()
	if now := heldAs(*w, waits); now != before {
		s.emitHold("update", via, before, now, w, waits)
		return
	}
	s.emitWork(record.WorkItemWritten, "task.updated", *w, fields{"op": "update"})
}

// Ways by which an operator decides.
const (
	ViaAction = "respond_action"
	viaInput  = "operator_input"
)

// emitHold records that an item is held by something else than before, "" for nothing. via is how the operator decided
// that, "" when the agent did.
func (s *step) emitHold(op, via string, before, now rules.WorkState, w *ledger.WorkItem, waits []ledger.Wait) {
	if before != "" {
		s.emitWork(record.WorkItemWritten, "task.resumed", *w, fields{"op": op})
	}
	if before == rules.WorkWaitingOperator {
		how := fields{"decision": "answered", "resolved_by": "runtime", "via": "policy"}
		if via != "" {
			how["resolved_by"], how["via"] = "operator", via
		}
		s.emitItemAction(record.ActionResolved, *w, how)
	}
	if now == "" {
		return
	}
	s.start(w)
	f := fields{"op": op}
	s.emitWork(record.WorkItemWritten, f.held(now, *w, waits), *w, f)
	if now == rules.WorkWaitingOperator {
		s.emitItemAction(record.ActionRequired, *w, fields{"action_type": "operator_input", "prompt": clip(w.Objective)})
	}
}

// emitItemAction records that a work item needs its operator, or does not any more.
func (s *step) emitItemAction(typ string, w ledger.WorkItem, f fields) {
	e := ledger.Event{Ref: w.ID, From: s.workFrom(w.ID)}
	e.IDs[agentruntime.Action] = itemAction(w)
	s.emit(typ, e, f)
}

// itemAction is the id of the action by which a work item asks its operator.
func itemAction(w ledger.WorkItem) string { return "action_" + w.ID }

// held adds what an item waits for, and returns the class that says so.
func (f fields) held(as rules.WorkState, w ledger.WorkItem, waits []ledger.Wait) (class string) {
	kind, ref := "", ""
	switch as {
	case rules.WorkBlocked:
		return "task.blocked"
	case rules.WorkWaitingOperator:
		kind, ref = "operator", w.ID
	case rules.WorkWaitingTask:
		kind = "task"
	case rules.WorkWaitingExternal:
		kind = "external"
	}
	for _, wait := range waits {
		if ref == "" && wait.Owner == w.ID && wait.Status == ledger.WaitActive {
			ref = wait.SubjectRef
		}
	}
	f["wait_for"] = fields{"kind": kind, "ref": ref}
	return "task.waiting"
}

// block says what an item waits for, "" for nothing any more, and when it is looked at again.
func (s *step) block(w *ledger.WorkItem, by string, after time.Duration) {
	w.BlockedBy, w.RecheckAt, w.RecheckConsumedAt = by, nil, nil
	if by != "" {
		at := s.now.Add(cmp.Or(after, rules.DefaultRecheck))
		w.RecheckAt = &at
	}
}

// workStep changes an open item of an agent: change reports whether it changed anything. A key that changed the item
// before changes nothing.
func (m *Scheduler) workStep(ctx context.Context, agentID, itemID, key string,
	change func(*step, *ledger.WorkItem) bool) (ledger.WorkItem, error) {
	var w ledger.WorkItem
	err := m.step(ctx, agentID, func(s *step) (err error) {
		if w, err = s.ownWork(itemID); err != nil || slices.Contains(w.Calls, key) {
			return err
		}
		if w.State == ledger.WorkCompleted {
			return refused(CodeWorkCompleted, "work_item_id", "create a new work item for what is left",
				"work item %s is completed", w.ID)
		}
		if err := s.checkLive(); err != nil {
			return err
		}
		next := s.nextWork(w, key)
		if !change(s, &next) {
			return nil
		}
		w = next
		s.updateWork(&w)
		if w.State == ledger.WorkCompleted || w.PlanStatus != ledger.PlanNeedsInput {
			s.settleMatter(ledger.NoticeInput, w.ID)
		}
		if w.RecheckConsumedAt == nil {
			s.settleMatter(ledger.NoticeRecheck, w.ID)
		}
		s.worked()
		return nil
	})
	return w, err
}

// updateWork replaces an item.
func (s *step) updateWork(w *ledger.WorkItem) {
	w.Step = s.number()
	s.update(w)
}

// nextWork is an item before a call changes it.
func (s *step) nextWork(w ledger.WorkItem, key string) ledger.WorkItem {
	w.Revision++
	w.UpdatedAt = s.now
	if w.Calls = append(slices.Clone(w.Calls), key); len(w.Calls) > maxCalls {
		w.Calls = w.Calls[len(w.Calls)-maxCalls:]
	}
	return w
}

// worked notes that a work item changed: the turn that runs made progress, and an idle agent may have work to go on
// with.
func (s *step) worked() {
	switch a, open := s.openAttempt(); {
	case !open: // only the operator changes items then, and that is news
		s.goOn()
	case !a.Worked:
		a.Worked = true
		s.update(&a)
	}
}

// ownWork returns an item of the agent. One of another agent is unknown.
func (s *step) ownWork(id string) (ledger.WorkItem, error) {
	w, ok := find(s, ledger.View.WorkItem, id)
	if !ok || w.AgentID != s.state.AgentID {
		return ledger.WorkItem{}, refused(ledger.CodeNotFound, "work_item_id",
			"holon work list --all --agent "+s.state.AgentID+" shows the work items",
			"agent %s has no work item %.80q", s.state.AgentID, id)
	}
	return w, nil
}

// releaseFocus lets the current item go. It stays open.
func (s *step) releaseFocus(reason string) {
	if s.state.CurrentWork == "" {
		return
	}
	w := read(s, ledger.View.WorkItem, s.state.CurrentWork)
	s.state.CurrentWork = ""
	s.emitWork(record.WorkItemReleased, "", w, fields{"reason": reason})
}

// emitWork records an item as the step leaves it. A class of the standard needs the ids of a task.
func (s *step) emitWork(typ, class string, w ledger.WorkItem, f fields) {
	e := ledger.Event{Ref: w.ID, From: s.workFrom(w.ID), Class: class,
		Status: (&agentruntime.Event{Type: class}).TaskStatus()}
	if class != "" {
		e.IDs[agentruntime.Task] = w.ID
		if class == "task.created" {
			e.ID = w.Event
		} else {
			e.Cause = cmp.Or(s.cause, w.Event)
		}
		if w.PickedAt != nil {
			e.IDs[agentruntime.Run] = "run_" + w.ID
		}
	}
	w.Calls, w.Event = nil, ""
	f = f.with("work_item_id", w.ID)
	switch class {
	case "task.created":
		f["task_kind"], f["task_family"], f["objective"] = "work_item", "objective", clip(w.Objective)
	case "task.blocked", "task.updated":
		f["required_action"] = clip(w.BlockedBy)
	case "task.waiting":
		f["required_action"], e.Status = clip(w.BlockedBy), "waiting_resource"
		if w.PlanStatus == ledger.PlanNeedsInput {
			e.Status, e.IDs[agentruntime.Action] = "waiting_input", itemAction(w)
		}
	case "task.completed":
		f["delivery_state"] = "queued"
	}
	s.emit(typ, e, f.with(record.RecordWork, boundedWork(w)))
}

// boundedWork is an item as an event has room for it: its objective whole, but for one of which most has to be escaped,
// and the checklist if there is room left.
func boundedWork(w ledger.WorkItem) ledger.WorkItem {
	objective := len(eventJSON(w.Objective))
	if objective > maxWorkInEvent {
		w.Objective = clip(w.Objective)
		objective = len(eventJSON(w.Objective))
	}
	w.BlockedBy = clip(w.BlockedBy)
	w.ResultSummary = clip(w.ResultSummary)
	if objective+len(eventJSON(w.Todo)) > maxWorkInEvent {
		w.Todo = nil
	}
	return w
}

// maxWorkInEvent bounds the objective and the checklist of an item in an event, in bytes of JSON. The rest of an
// event fits into what is left of 8 KiB.
const maxWorkInEvent = 4608
