package turn

import (
	"context"

	"holon/responses"
	"holon/responses/turns"
)

// Notice is what happened outside the turn, and the facts of it.
type Notice struct {
	Item   responses.Item // nil when the model knows it
	Events []turns.RuntimeEvent
}

// notice adds what happened outside to what the model is told. A notice that is
// in the journal and not marked as told is told again, never lost; its facts are not.
func (r *runner) notice() error {
	if r.Notices == nil {
		return nil
	}
	list, told := r.Notices()
	for _, n := range list {
		for _, fact := range n.Events {
			if err := r.Journal.Event(fact); err != nil {
				return err
			}
		}
		if n.Item == nil {
			continue
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

// hear adds what the user said since the model was last asked. It comes where a
// round begins, so that no call is parted from its result.
func (r *runner) hear() error {
	if r.Inbox == nil {
		return nil
	}
	said, err := r.Inbox.Insert(r.result.Rounds)
	for _, item := range said {
		r.input = append(r.input, item)
		r.view.add(item)
	}
	return err
}

// askedAgain reports whether the user said something that the model has not
// answered although it has answered all else, and a round is left for it.
func (r *runner) askedAgain(ctx context.Context) bool {
	return r.Inbox != nil && ctx.Err() == nil && r.spent() == "" && !r.Inbox.Close()
}
