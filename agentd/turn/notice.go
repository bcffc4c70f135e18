package turn

import (
	"holon/responses"
	"holon/responses/turns"
)

// Notice is a fact from outside the turn.
type Notice struct {
	Item  responses.Item
	Event turns.RuntimeEvent
}

// notice adds what happened outside to what the model is told. A notice that is
// in the journal and not marked as told is told again, never lost.
func (r *runner) notice() error {
	if r.Notices == nil {
		return nil
	}
	list, told := r.Notices()
	for _, n := range list {
		if err := r.Journal.Event(n.Event); err != nil {
			return err
		}
		if err := r.add(n.Item); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		told()
	}
	return nil
}
