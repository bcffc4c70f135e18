package scheduler

import (
	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// admitResult admits the message that brings the end of a task to its agent. That of a stopped agent waits.
func (s *step) admitResult(t ledger.Task) {
	msg := s.own(ledger.Message{Key: "task_result:" + t.ID + ":" + string(t.Status), Kind: ledger.KindTaskResult,
		Origin: ledger.Origin{Kind: ledger.OriginTask, TaskID: t.ID}, Surface: ledger.SurfaceTaskRejoin,
		Body:     ledger.Body{Type: "text", Text: rules.TaskResult(t)},
		Metadata: mustJSON(fields{"work_item_id": t.Owner.WorkItemID, "task_id": t.ID, "status": t.Status})})
	_, queued, err := s.earlier(msg)
	if s.fail(err); queued || err != nil {
		return
	}
	s.admit(msg, s.senderFor(t))
}

// senderFor is the sender of what a task brings to its agent.
func (s *step) senderFor(t ledger.Task) ledger.Sender {
	by := ledger.Sender("")
	if t.Owner.TurnID != "" {
		by = ledger.FromSelf // also where the record of the turn is pruned
		if e, ok := find(s, ledger.View.Entry, t.Owner.MessageID); ok {
			by = e.Sender
		}
	}
	return rules.Result(s.state.Progress, by)
}

// emitDelivery records what became of a message if it brings the result of a task: delivered with the beginning of its
// turn, failed where it got none.
func (s *step) emitDelivery(messageID, turnID, delivery string) {
	msg := s.message(messageID)
	if msg.Kind != ledger.KindTaskResult {
		return
	}
	t, ok := s.task(msg.TaskID)
	if !ok {
		return
	}
	s.emitTask(turns.RuntimeEvent{Type: "task.updated", TaskID: t.ID,
		Payload: mustJSON(fields{"delivery_state": delivery})}, t, ledger.Event{MessageID: msg.ID, TurnID: turnID})
}
