package scheduler

import (
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// tellOfTask admits the message that brings the end of a task to its agent. That of a stopped agent waits.
func (s *step) tellOfTask(t ledger.Task) error {
	msg, err := s.m.envelope(Ingress{AgentID: t.AgentID, Key: "task_result:" + t.ID + ":" + string(t.Status),
		Kind: ledger.KindTaskResult, Origin: ledger.Origin{Kind: ledger.OriginTask, TaskID: t.ID},
		Body:    ledger.Body{Type: "text", Text: rules.TaskResult(t)},
		Surface: ledger.SurfaceTaskRejoin, AdmissionContext: ledger.RuntimeOwned,
		Metadata: mustJSON(facts{"work_item_id": t.Owner.WorkItemID, "task_id": t.ID, "status": t.Status})})
	if err != nil {
		return err
	}
	if _, told, err := s.earlier(msg); told || err != nil {
		return err
	}
	by := ledger.Sender("")
	if t.Owner.TurnID != "" {
		by = ledger.FromSelf // also where the record of the turn is pruned
		if e, err := s.Entry(t.Owner.MessageID); err == nil {
			by = e.Sender
		} else if !state.IsCode(err, ledger.CodeNotFound) {
			return err
		}
	}
	_, err = s.admit(msg, rules.Result(s.state.Progress, by))
	return err
}

// tellDelivery tells what became of a message if it brings the result of a task: delivered with the beginning of its
// turn, failed where it got none.
func (s *step) tellDelivery(messageID, turnID, delivery string) error {
	msg, err := s.Message(messageID)
	if err != nil || msg.Kind != ledger.KindTaskResult {
		return err
	}
	t, err := s.Task(msg.AgentID, msg.TaskID)
	if state.IsCode(err, ledger.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.emitTask(record.TaskStatusUpdated, turns.RuntimeEvent{Type: "task.updated", TaskID: t.ID,
		Payload: mustJSON(facts{"delivery_state": delivery})}, t, ledger.Event{MessageID: msg.ID, TurnID: turnID})
	return nil
}
