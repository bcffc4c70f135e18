package turn

import (
	"errors"
	"fmt"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
)

// strip replaces pictures and files by a text after the provider refused a request with them, and reports whether to
// ask again: those that it has not answered yet, then all. What makes it answer is kept out of every later turn (see
// stripped); where it refuses the request without them too, they were not its reason.
func (r *runner) strip(err error) (again bool, broken error) {
	v := r.view
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || !refusal(failed) || r.Emitter.Open() {
		return false, nil
	}
	n := v.visible.Strip(v.heard)
	if n == 0 {
		n = v.visible.Strip(0)
	}
	if n == 0 {
		return false, nil
	}
	v.visible.Epoch++
	v.size, v.stripped = model.EstimateItems(v.visible.Items), true
	notice := turns.Notice{Code: "content_refused", Component: "model", Recoverable: true,
		Message: fmt.Sprintf("the provider refused the request, and is asked again without the pictures and files of %d "+
			"messages and results: %s", n, tools.Clip(failed.Message, 400))}
	return true, r.Journal.Event(r.Scope.Warning(notice))
}

// bodyTooLarge is the HTTP status of a provider that takes no request of that size.
const bodyTooLarge = 413

// refusal reports whether content of a request can be why it failed.
func refusal(failed *model.Error) bool {
	switch failed.Kind {
	case model.KindInvalidRequest:
		return failed.Code != responses.CodeModelNotFound
	case model.KindContextLength:
		return failed.Status == bodyTooLarge
	}
	return false
}

// stripped keeps what was left out of a request that the provider answered.
func (r *runner) stripped() error {
	if !r.view.stripped {
		return nil
	}
	r.view.stripped = false
	return r.view.keep()
}
