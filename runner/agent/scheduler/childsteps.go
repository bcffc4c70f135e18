package scheduler

import (
	"context"
	"fmt"

	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// childStep makes a step of a parent and of its child that carries out a task.
func (m *Scheduler) childStep(ctx context.Context, parentID, taskID string,
	fn func(parent, child *step, t ledger.Task) error) error {
	return m.step(ctx, parentID, func(s *step) error {
		t, ok := s.task(taskID)
		if !ok || t.Child() == nil {
			return refused(ledger.CodeNotFound, "task_id", "TaskList shows the tasks of this session",
				"agent %s has no child with the task %.80q", parentID, taskID)
		}
		child, err := s.agent(t.Child().AgentID)
		if err != nil {
			return err
		}
		return fn(s, child, t)
	})
}

// FollowUp gives a child a further message of its parent, once for a key. In a turn of the parent it has the authority
// of the message that the parent works on; otherwise by is the operator, and it has the operator's. accepted is false
// for a child that has ended or is stopped.
func (m *Scheduler) FollowUp(ctx context.Context, parentID, taskID, key, text string, byOperator bool) (t ledger.Task,
	accepted bool, err error) {
	if bad := checkBody(ledger.Body{Type: "text", Text: text}); bad != nil {
		return t, false, refused(CodeInvalidMessage, "input", "", "%s", bad.Message)
	}
	err = m.childStep(ctx, parentID, taskID, func(s, child *step, of ledger.Task) error {
		t, accepted = of, false
		msg := child.fromParent("followup:"+key, text)
		if byOperator {
			msg.Trust, msg.Authority = ledger.TrustedOperator, ledger.OperatorInstruction
		} else if a, open := s.openAttempt(); open {
			rules.As(&msg, s.message(a.MessageID))
		}
		if _, known, err := child.earlier(msg); known {
			accepted = true
			return err
		}
		if t.Status.Terminal() || t.Checking() || child.state.Stopped {
			return nil
		}
		if err := child.checkQueueQuota(ledger.FromParent); err != nil {
			return err
		}
		child.admit(msg, ledger.FromParent)
		s.emitSubagent("subagent.input", t, ledger.Event{Cause: s.cause}, fields{"input_ref": msg.ID,
			"from": "parent", "delivered_as": "message"})
		accepted = true
		return nil
	})
	return t, accepted, err
}

// StopChild ends the task of a child, and the child with all below it. Stopping what has ended changes nothing; stopped
// says whether this call ended it.
func (m *Scheduler) StopChild(ctx context.Context, parentID, taskID, by string) (t ledger.Task, stopped bool,
	err error) {
	err = m.childStep(ctx, parentID, taskID, func(s, child *step, of ledger.Task) error {
		if stopped = !of.Status.Terminal(); stopped {
			s.cancelChild(child, of, by)
		}
		t, _ = s.task(taskID)
		return nil
	})
	return t, stopped, err
}

// Interrupted marks the tasks of an agent's children as interrupted, which another process supervised.
func (m *Scheduler) Interrupted(ctx context.Context, agentID string) error {
	return m.step(ctx, agentID, func(s *step) error {
		for _, t := range read(s, ledger.View.OpenChildren, agentID) {
			if t.Handle.Runtime == m.opts.Owner || t.Status == tasks.Interrupted {
				continue
			}
			t.Status, t.UpdatedAt = tasks.Interrupted, s.now
			s.emitTask(turns.RuntimeEvent{Type: "task.updated", TaskID: t.ID,
				Payload: mustJSON(fields{"message": "holon ended; the child is to be taken up again"})}, t,
				ledger.Event{Cause: createdEvent(t)})
			s.update(&t)
		}
		return nil
	})
}

// Reattached records that this process supervises a child again, whose turn it has settled or follows.
func (m *Scheduler) Reattached(ctx context.Context, childID string) error {
	child, err := ledger.Read(ctx, m.store, func(v ledger.View) (ledger.Agent, error) { return v.Agent(childID) })
	if err != nil || child.ArchivedAt != nil {
		return err
	}
	err = m.childStep(ctx, child.ParentID, child.DelegatedFromTask, func(s, c *step, t ledger.Task) error {
		if t.Status != tasks.Interrupted {
			return nil
		}
		t.Status, t.Handle.Runtime, t.UpdatedAt = tasks.Running, m.opts.Owner, s.now
		s.emitTask(turns.RuntimeEvent{Type: "task.updated", TaskID: t.ID, Payload: mustJSON(fields{"reattached": true})}, t,
			ledger.Event{Cause: createdEvent(t)})
		s.update(&t)
		return nil
	})
	if state.IsCode(err, ledger.CodeNotFound) { // nothing supervises it any more
		return m.step(ctx, childID, func(s *step) error {
			s.cancelChildren("the runtime")
			s.archiveChild(s.agentRow(), "its task is missing")
			return nil
		})
	}
	return err
}

// WorktreeOf records what became of the tree of a child's task, which may have ended. What is on record already, or
// says less than that, changes nothing.
func (m *Scheduler) WorktreeOf(ctx context.Context, parentID, taskID string, w ledger.Worktree) error {
	return m.childStep(ctx, parentID, taskID, func(s, _ *step, t ledger.Task) error {
		handle := *t.Child()
		if old := handle.Worktree; old != nil {
			if !succeeds(*old, w) {
				return nil
			}
			if w.Changed < old.Changed && w.Cleanup != ledger.WorktreeActive { // its patch stays
				w.ChangedFiles, w.Changed, w.Patch = old.ChangedFiles, old.Changed, old.Patch
			}
		}
		handle.Worktree, t.Handle.Child, t.UpdatedAt = &w, &handle, s.now
		label := fmt.Sprintf("worktree_%s", map[string]string{ledger.WorktreeActive: "created_for_task",
			ledger.WorktreeRemoved: "auto_cleaned_up_for_task", ledger.WorktreeRetained: "retained_for_review",
			ledger.WorktreeFailed: "auto_cleanup_failed"}[w.Cleanup])
		s.emitSubagent(record.WorktreeEvent, t, ledger.Event{Cause: createdEvent(t)},
			fields{"what": label, "worktree": w.Short()})
		s.update(&t)
		return nil
	})
}

// succeeds reports whether a report of a tree is newer than the one that is on record: a tree ends once, and is
// discarded after that.
func succeeds(old, now ledger.Worktree) bool {
	switch {
	case old.Cleanup == ledger.WorktreeActive:
		return true
	case now.Cleanup == ledger.WorktreeActive:
		return false
	case old.Cleanup == now.Cleanup:
		return now.Changed > old.Changed
	}
	return old.Cleanup != ledger.WorktreeRemoved
}
