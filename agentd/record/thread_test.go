package record

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

// told begins a turn of a session that continues a response, with the facts that the server begins with.
func told(t *testing.T, s *Store, session, id, previous string, change ...func(*Header)) *Turn {
	t.Helper()
	resp := responses.NewResponse(id, "scripted/x", now().Unix(), &responses.Request{Store: true})
	h := Header{ResponseID: id, PreviousResponseID: previous, SessionID: session, TurnID: "turn_" + id,
		TurnDir: filepath.Join(filepath.Dir(s.dir), "turn_"+id), CreatedAt: now(), Instance: "inst_1", Response: resp}
	for _, f := range change {
		f(&h)
	}
	rec := turns.NewRecord(session, h.TurnID, &h.Response, "", "inst_1", "test", now())
	turn, err := s.Begin(h.TurnDir, rec, h, nil, nil, now)
	must(t, err)
	at, fork := turn.Thread()
	scope := turns.Scope{RuntimeID: s.RuntimeID(), SessionID: session, ThreadID: at.ID, TurnID: h.TurnID, Now: now}
	if at.Facts == 0 {
		must(t, turn.Event(scope.ThreadStarted(fork)))
	}
	em, err := responses.NewEmitter(h.Response, turn.Sink())
	must(t, turn.Event(scope.TurnSubmitted(turns.Submitted{ResponseID: id}, false)), err, turn.Acknowledge())
	if id < "resp_x" { // the others stay open
		must(t, em.Complete(responses.Usage{}, now().Unix()),
			turn.Commit(em.Response(), turns.Totals{}, scope.Event(turns.TurnCompleted, turns.Completed{})), turn.Close())
	}
	return turn
}

// The first stored turn that continues a response goes on in its thread. Any other begins a thread, also after a
// restart that knows no response yet.
func TestThreads(t *testing.T) {
	s := newStore(t, t.TempDir())
	runtime := s.RuntimeID()
	unstored := func(h *Header) { h.Response.Store = false }
	threads := map[string]string{}
	for _, c := range []struct {
		id, previous, session string
		thread                string // the response whose thread it is, "" for its own
		before                int64  // facts
		cold                  bool
		change                []func(*Header)
	}{
		{id: "resp_a", session: "s"},
		{id: "resp_b", previous: "resp_a", session: "s", thread: "resp_a", before: 3},
		{id: "resp_c", previous: "resp_b", session: "s", change: []func(*Header){unstored}},
		{id: "resp_d", previous: "resp_b", session: "s", thread: "resp_a", before: 5, cold: true},
		{id: "resp_e", previous: "resp_a", session: "s", cold: true},
		{id: "resp_f", previous: "resp_e", session: "s", thread: "resp_e", before: 3},
		{id: "resp_g", previous: "resp_f", session: "other"},
		{id: "resp_h", previous: "resp_d", session: "s", thread: "resp_a", before: 7},
		{id: "resp_i", session: "s"},
	} {
		if c.cold {
			s = cold(t, s)
		}
		turn := told(t, s, c.session, c.id, c.previous, c.change...)
		at, fork := turn.Thread()
		threads[c.id] = at.ID
		own := c.thread == ""
		if want := threads[c.thread]; !own && at.ID != want || at.ID == "" {
			t.Errorf("%s is in the thread %q, want that of %s", c.id, at.ID, c.thread)
		}
		if forked := own && c.previous != ""; forked != (fork != nil) {
			t.Errorf("%s left %+v", c.id, fork)
		} else if forked && *fork != (turns.Fork{ThreadID: threads[c.previous], TurnID: "turn_" + c.previous,
			ResponseID: c.previous}) {
			t.Errorf("%s left %+v", c.id, fork)
		}
		if first := turn.trajectory.header.Facts; first != c.before {
			t.Errorf("%s has %d facts before it, want %d", c.id, first, c.before)
		}
	}
	if s.RuntimeID() != runtime {
		t.Errorf("the installation became %s, it was %s", s.RuntimeID(), runtime)
	}
}

// A turn whose response was deleted has continued the one before all the same: its facts stay.
func TestThreadOfADeletedResponse(t *testing.T) {
	s := newStore(t, t.TempDir())
	told(t, s, "s", "resp_a", "")
	told(t, s, "s", "resp_b", "resp_a")
	must(t, s.Delete("resp_b"))
	_, err := s.Sweep(t.Context(), Retention{}, now())
	must(t, err)
	for _, id := range []string{"resp_c", "resp_d"} {
		turn := told(t, s, "s", id, "resp_a")
		if at, fork := turn.Thread(); fork == nil || fork.ResponseID != "resp_a" || turn.trajectory.header.Facts != 0 {
			t.Errorf("%s is in %+v and left %+v, want a fork", id, at, fork)
		}
		must(t, s.Delete(id))
		_, err := s.Sweep(t.Context(), Retention{}, now())
		must(t, err)
		s = cold(t, s)
	}
	if items, session, err := s.Chain("resp_a"); err != nil || session != "s" {
		t.Errorf("the response that was continued has %d items of %q, %v", len(items), session, err)
	}
}

// A turn that a kill cut off, also before it had any fact, keeps its place in the thread, and the
// task that it began is in its facts.
func TestThreadAfterAKill(t *testing.T) {
	for facts := range 2 {
		t.Run(fmt.Sprint(facts, " facts"), func(t *testing.T) {
			s := newStore(t, t.TempDir())
			told(t, s, "s", "resp_a", "")
			turn := told(t, s, "s", "resp_x", "resp_a")
			if facts == 0 {
				must(t, os.Truncate(filepath.Join(turn.Dir, turns.JournalFile), 0))
			}
			must(t, s.lock.Close())
			s, err := OpenStore(s.dir)
			must(t, err)
			defer s.Close()
			s.Complete(func(scope turns.Scope, known map[string]string) ([]turns.RuntimeEvent, func()) {
				return scope.TaskBegun("task_1", turns.TaskBegun{}), func() {}
			})
			_, err = settleAll(s)
			must(t, err)
			at, _ := told(t, s, "s", "resp_b", "resp_x").Thread()
			if at.ID != turn.trajectory.header.ThreadID || at.Facts != 10 { // 3, 5 of the one that was cut off, 2
				t.Errorf("%+v", at)
			}
		})
	}
}
