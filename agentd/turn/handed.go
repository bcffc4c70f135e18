package turn

import "holon/responses/turns"

// handed records what the client has to answer since it was recorded last, also of an attempt that failed afterwards:
// a call that is on the stream is part of the conversation.
func (w *attempts) handed() {
	r := w.runner
	calls := turns.Handed(r.Emitter.Response().Output)
	for _, call := range calls[r.handed:] {
		w.record(r.Scope.ActionRequired(call))
	}
	r.handed = len(calls)
}
