package admission_test

import (
	"context"
	"errors"
	"testing"

	"holon/agentd/admission"
	"holon/responses"
	"holon/test/expect"
)

// load is what a queue holds.
type load struct{ running, queued int }

func loadOf(q *admission.Queue) load {
	running, queued := q.Load()
	return load{running, queued}
}

func admit(t *testing.T, q *admission.Queue, session string) *admission.Ticket {
	t.Helper()
	ticket, err := q.Admit(session)
	if err != nil {
		t.Fatalf("a turn of session %s is refused: %v", session, err)
	}
	return ticket
}

// A turn waits for its own session and for a free place, and nothing else.
func TestTurnsWaitForTheirSessionAndAPlace(t *testing.T) {
	q := admission.NewQueue(2, 10)
	a1, a2, b, c := admit(t, q, "a"), admit(t, q, "a"), admit(t, q, "b"), admit(t, q, "c")
	started := func() [4]bool { return [4]bool{a1.Started(), a2.Started(), b.Started(), c.Started()} }
	if got, want := started(), [4]bool{true, false, true, false}; got != want {
		t.Fatalf("started are %v, want %v", got, want)
	}
	q.Leave(b)
	expect.Equal(t, "after b left, started", started(), [4]bool{true, false, true, true})
	q.Leave(a1)
	if !a2.Started() {
		t.Error("the second turn of a session waits although the first has left")
	}
	expect.Equal(t, "the load", loadOf(q), (load{2, 0}))
}

// A turn that waits can leave, and a full queue refuses.
func TestLeavingTheQueue(t *testing.T) {
	q := admission.NewQueue(1, 1)
	running, waiting := admit(t, q, "a"), admit(t, q, "b")
	if _, err := q.Admit("c"); responses.AsError(err).Code != responses.CodeQueueFull {
		t.Errorf("a full queue answers %v, want the code %s", err, responses.CodeQueueFull)
	}
	q.Leave(waiting)
	expect.Equal(t, "after a waiting turn left, the load", loadOf(q), (load{1, 0}))
	late := admit(t, q, "c")
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	expect.ErrorIs(t, "waiting ends", q.Wait(ctx, late), reason)
	if err := q.Wait(ctx, running); err != nil {
		t.Errorf("a turn that was started waits and gets %v, want nil", err)
	}
	q.Leave(running)
	if got, want := loadOf(q), (load{0, 0}); got != want {
		t.Errorf("the load is %v in the end, want %v", got, want)
	}
}
