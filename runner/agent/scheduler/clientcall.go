package scheduler

import (
	"cmp"
	"time"

	"holon/responses"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// DefaultClientCallTimeout is how long an agent waits for its client to answer calls of the client's functions.
const DefaultClientCallTimeout = 10 * time.Minute

// sourceClient is the source of the wait of an agent whose turn ended with calls of its client's functions.
const sourceClient = "client_calls"

// awaitClient has an agent wait for the outputs of calls with which its turn ended. Anything else that wakes it ends
// the wait too, at the latest its time: the next turn, whatever it is for, answers what has no output with an error.
func (s *step) awaitClient(a ledger.Attempt, calls []string) {
	if len(calls) == 0 || s.state.Stopped || a.Renewed {
		return
	}
	at := s.now.Add(cmp.Or(s.m.opts.ClientCallTimeout, DefaultClientCallTimeout)).Truncate(time.Millisecond)
	w := ledger.Wait{ID: responses.NewID(prefixWait), AgentID: a.AgentID, Owner: ledger.OwnerAgent,
		Status: ledger.WaitActive, Kind: ledger.WaitOperator, Source: sourceClient,
		WaitingFor: "the client to answer the calls of its functions", Wakes: rules.AnyWake(), WakeAt: &at,
		Registered: a.ID, CreatedAt: s.now, UpdatedAt: s.now}
	for i := range w.Wakes {
		if w.Wakes[i].Kind == rules.WakeTimer {
			w.Wakes[i].WakeAt = &at
		}
	}
	s.register(w, a.TurnID, false)
}
