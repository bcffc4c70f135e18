package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
)

// handing is a conversation of two turns: the first hands a call to the client, the second brings its output.
type handing struct {
	*testing.T
	store *Store
	dir   string
}

// begin begins the turn with the given number. Its facts so far are those that a server writes.
func (h handing) begin(n, previous, input string) (*Turn, *responses.Emitter, turns.Scope) {
	h.Helper()
	req, err := responses.DecodeRequest([]byte(`{"input":` + input + `}`))
	must(h.T, err)
	resp := responses.NewResponse("resp_"+n, "scripted/x", now().Unix(), req)
	rec := turns.NewRecord("sess_1", "turn_"+n, &resp, req.Digest, "inst_1", "test", now())
	var before []responses.Item
	if previous != "" {
		before, _, err = h.store.Chain(previous)
		must(h.T, err)
	}
	turn, err := h.store.Begin(filepath.Join(h.dir, n), rec, Header{ResponseID: resp.ID, PreviousResponseID: previous,
		SessionID: "sess_1", TurnID: "turn_" + n, TurnDir: filepath.Join(h.dir, n), CreatedAt: now(),
		RequestDigest: req.Digest, Instance: "inst_1", Version: "test", Response: resp}, nil, req.Input, now)
	must(h.T, err)
	at, fork := turn.Thread()
	scope := turns.Scope{RuntimeID: h.store.RuntimeID(), SessionID: "sess_1", ThreadID: at.ID, TurnID: "turn_" + n,
		Now: now}
	if at.Facts == 0 {
		must(h.T, turn.Event(scope.ThreadStarted(fork)))
	}
	must(h.T, turn.Event(scope.TurnSubmitted(turns.Submitted{Source: "test", ResponseID: resp.ID}, false)),
		turn.Event(scope.Event(turns.TurnStarted, turns.Started{})))
	for _, fact := range scope.ClientAnswers(before, req.Input, at.Facts > 0) {
		must(h.T, turn.Event(fact))
	}
	must(h.T, turn.Event(scope.ContextResolved(turns.Context{})),
		turn.Event(scope.Event(turns.RoutingDecided, turns.Routing{RoutingMode: "fixed", CandidateCount: 1})))
	em, err := responses.NewEmitter(resp, turn.Sink())
	must(h.T, err, turn.Acknowledge())
	return turn, em, scope
}

// hand lets the model of the turn call a function of the client.
func (h handing) hand(turn *Turn, em *responses.Emitter, scope turns.Scope) {
	h.Helper()
	must(h.T, turn.Event(scope.OfRequest(turns.ModelRequested, "mr_1", turns.Requested{Round: 1, Attempt: 1,
		MaxAttempts: 1})),
		em.BeginFunctionCall("call_1", "ask"),
		em.Arguments(`{"what":"weather"}`), em.EndItem(), turn.Add(em.Response().Output[0]),
		turn.Event(scope.OfRequest(turns.ModelCompleted, "mr_1", turns.Sampled{})),
		turn.Event(scope.CostRecorded("mr_1", turns.TokenUsage{})))
	for _, call := range turns.Handed(em.Response().Output) {
		must(h.T, turn.Event(scope.ActionRequired(call)))
	}
}

// commit ends the turn as a server does.
func (h handing) commit(turn *Turn, em *responses.Emitter, scope turns.Scope) {
	h.Helper()
	must(h.T, em.Complete(responses.Usage{}, now().Unix()))
	resp := em.Response()
	must(h.T, turn.Commit(resp, turns.Totals{}, scope.Event(turns.TurnCompleted, turns.Completed{ResponseID: resp.ID,
		OpenActions: turns.ActionIDs(resp.Output)})), turn.Close())
}

// die kills the process when the first n lines of the journal were on disk, and settles the turn.
func (h handing) die(turn *Turn, n int) (more bool) {
	h.Helper()
	turn.Abort(errors.New("killed"))
	must(h.T, turn.Close())
	path := filepath.Join(turn.Dir, turns.JournalFile)
	data, err := os.ReadFile(path)
	must(h.T, err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	more = n+1 < len(lines)
	must(h.T, os.WriteFile(path, bytes.Join(lines[:min(n, len(lines))], nil), 0o600))
	settled, err := settleAll(h.store)
	if err != nil || len(settled) != 1 {
		h.Fatalf("settled %v, %v", settled, err)
	}
	return more
}

// legal holds the facts of turns, in order, to the rules, and returns them all.
func (h handing) legal(names ...string) string {
	h.Helper()
	var all strings.Builder
	v := agentruntime.NewValidator(agentruntime.LevelC, func(v agentruntime.Violation) {
		h.Errorf("%s:%d: %s: %s instead of %s", v.File, v.Line, v.Rule, v.Got, v.Want)
	})
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(h.dir, name, turns.RuntimeFile))
		must(h.T, err, v.Read(name, bytes.NewReader(data)))
		all.Write(data)
	}
	return all.String()
}

const output = `[{"type":"function_call_output","call_id":"call_1","output":"sunny"}]`

// Whatever a kill leaves of the facts of the turn that hands a call to the client, or of the turn that brings its
// output, the call is an open action afterwards, or is answered, once.
func TestSettleCallsOfTheClient(t *testing.T) {
	for first := range 2 {
		for n, more := 0, true; more; n++ {
			dir := t.TempDir()
			h := handing{t, newStore(t, dir), dir}
			turn, em, scope := h.begin("1", "", `"Weather?"`)
			h.hand(turn, em, scope)
			if first == 0 {
				more = h.die(turn, n)
			} else {
				h.commit(turn, em, scope)
			}
			if log := h.legal("1"); strings.Count(log, turns.ActionRequired) != 1 ||
				!strings.Contains(log, `"open_action_ids":["act_`) {
				t.Errorf("cut after %d lines, the call is not an open action:\n%s", n, log)
			}
			turn, em, scope = h.begin("2", "resp_1", output)
			if first == 0 {
				h.commit(turn, em, scope)
			} else {
				more = h.die(turn, n)
			}
			for _, class := range []string{turns.ActionResolved, turns.ToolStarted, turns.ToolResult} {
				if log := h.legal("1", "2"); strings.Count(log, `"`+class+`"`) != 1 || !strings.Contains(log, "sunny") {
					t.Errorf("cut after %d lines, there is not one %s:\n%s", n, class, log)
				}
			}
			if rec, err := ReadRecord(filepath.Join(dir, "2")); err != nil || rec.ToolCalls.Total != 0 {
				t.Errorf("the client's call counts as one of the container: %+v, %v", rec, err)
			}
		}
	}
}

// A call that another thread answers too is a call of its own there.
func TestACallOfTheClientIsAnsweredInAFork(t *testing.T) {
	dir := t.TempDir()
	h := handing{t, newStore(t, dir), dir}
	turn, em, scope := h.begin("1", "", `"Weather?"`)
	h.hand(turn, em, scope)
	h.commit(turn, em, scope)
	for _, name := range []string{"2", "3"} {
		turn, em, scope := h.begin(name, "resp_1", output)
		h.commit(turn, em, scope)
	}
	log := h.legal("1", "2", "3")
	if strings.Count(log, turns.ActionResolved) != 1 || strings.Count(log, `"tool.result"`) != 2 {
		t.Errorf("the action is resolved twice, or an answer is missing:\n%s", log)
	}
}
