package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner"
	"holon/state"
	"holon/test/expect"
)

// The current response is one that a turn can continue, and each turn that ended has a final status, also for the next
// process.
func TestCurrent(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.opts.Pool = alone{}
	resp := func(status responses.Status, store bool) *responses.Response {
		return &responses.Response{Status: status, Store: store}
	}
	died, going := errors.New("the container is gone"), resp(responses.StatusInProgress, true)
	for name, c := range map[string]struct {
		end     runner.End
		status  responses.Status
		current int // turn whose response is current after it; the first is 1
	}{
		"completed":  {runner.End{Response: resp(responses.StatusCompleted, true)}, responses.StatusCompleted, 2},
		"incomplete": {runner.End{Response: resp(responses.StatusIncomplete, true)}, responses.StatusIncomplete, 2},
		"failed":     {runner.End{Response: resp(responses.StatusFailed, true)}, responses.StatusFailed, 1},
		"cancelled":  {runner.End{Response: resp(responses.StatusCancelled, true)}, responses.StatusCancelled, 1},
		"not stored": {runner.End{Response: resp(responses.StatusCompleted, false)}, responses.StatusCompleted, 1},
		"died":       {runner.End{Response: going, Err: died}, responses.StatusFailed, 1},
		"silent":     {runner.End{Err: died}, responses.StatusFailed, 1},
		"unseen": {runner.End{Response: going, Err: died, Claimed: resp(responses.StatusCompleted, true)},
			responses.StatusCompleted, 2},
	} {
		l.open()
		x := l.start(Ask{Name: filepath.Base(t.TempDir())})
		ask := func(n int) {
			t.Helper()
			_, err := x.begin(fmt.Sprint("turn_", x.id, n), "", func(error) {})
			expect.NoError(t, err)
			x.Note(fmt.Sprint("turn_", x.id, n), fmt.Sprint("resp_", x.id, n))
		}
		first := runner.End{Response: resp(responses.StatusCompleted, true)}
		ask(1)
		x.end(fmt.Sprint("turn_", x.id, 1), first, nil)
		ask(2)
		expect.Equal(t, name+": current while it goes on", x.Current(), fmt.Sprint("resp_", x.id, 2))
		x.end(fmt.Sprint("turn_", x.id, 2), c.end, nil)
		want := fmt.Sprint("resp_", x.id, c.current)
		for _, reopen := range []func(){func() {}, l.open} {
			reopen()
			x, err := l.Find("", x.id)
			expect.NoError(t, err)
			list, err := x.Turns()
			expect.NoError(t, err)
			expect.Equal(t, name+": status", list[1].Status, c.status)
			expect.Equal(t, name+": current", x.Current(), want)
			expect.Equal(t, name+": marked current", list[c.current-1].Current, true)
			expect.Equal(t, name+": the line", len(x.Line()), c.current)
		}
	}
}

// Turns that were asked for at once and fail leave what was current before all of them, and what the session went back
// to is not passed.
func TestCurrentOfSeveral(t *testing.T) {
	t.Parallel()
	f := newFolded(turns.Time{})
	for n := range 2 {
		f.take(line{Turn: fmt.Sprint("turn_", n), Response: fmt.Sprint("resp_", n)})
		f.take(line{Ended: fmt.Sprint("turn_", n), Begun: true, Status: responses.StatusCompleted})
	}
	f.take(line{Rewound: &rewound{Response: "resp_0"}})
	expect.Equal(t, "it went back", f.rewound, true)
	for _, n := range []string{"a", "b"} {
		f.take(line{Turn: "turn_" + n, Response: "resp_" + n})
	}
	f.take(line{Ended: "turn_a", Begun: true, Status: responses.StatusFailed})
	f.take(line{Ended: "turn_b", Begun: true, Status: responses.StatusFailed})
	expect.Equal(t, "current", f.current, "resp_0")
	expect.Equal(t, "it went back and on", f.rewound, false)
	f.take(line{Rewound: &rewound{Response: "resp_b"}})
	expect.Equal(t, "after going back to one that failed", f.current, "resp_0")
	for _, id := range []string{"resp_c", "resp_d", "resp_c", "resp_d"} { // as forged files of turns have it
		f.take(line{Turn: "turn_" + id, Response: id})
		f.take(line{Ended: "turn_" + id, Begun: true, Status: responses.StatusFailed})
	}
	expect.Equal(t, "after responses that there are twice", f.current, "resp_0")
}

// A response that was deleted is named no more, and the next turn continues the one before.
func TestDeletedResponse(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.opts.Pool = alone{}
	l.open()
	x := l.start(Ask{})
	for _, n := range []string{"1", "2"} {
		_, err := x.begin("turn_"+n, "", func(error) {})
		expect.NoError(t, err)
		x.Note("turn_"+n, "resp_"+n)
		x.end("turn_"+n, runner.End{Response: &responses.Response{Status: responses.StatusCompleted, Store: true}}, nil)
	}
	x.Deleted("resp_2")
	x.Deleted("resp_unknown")
	for range 2 {
		info := x.Info()
		expect.Equal(t, "responses", fmt.Sprint(info.ResponseIDs), "[resp_1]")
		expect.Equal(t, "current", info.Current, "resp_1")
		expect.Equal(t, "the line", fmt.Sprint(x.Line()), "[resp_1]")
		_, err := x.Rewind(t.Context(), "resp_2", true, "ann")
		expect.Equal(t, "going back to it", code(err), responses.CodeNotFound)
		l.open()
		x, err = l.Find("", x.id)
		expect.NoError(t, err)
	}
}

// A turn that called no tool has the files of the one before. Files that the session left are those of the turn that it
// left, also where others had the same.
func TestMarks(t *testing.T) {
	t.Parallel()
	f := newFolded(turns.Time{})
	for _, n := range []string{"1", "2", "3"} {
		f.take(line{Turn: n})
		f.take(line{Turn: n, Response: "resp_" + n})
		f.take(line{Ended: n, Begun: true, Status: responses.StatusCompleted, Idle: n != "2"})
	}
	marks := func(want ...string) {
		t.Helper()
		var got []string
		for _, id := range f.responses {
			got = append(got, f.made[id].mark)
		}
		expect.Equal(t, "marks", fmt.Sprint(got), fmt.Sprint(want))
	}
	marks(markStart, "2", "2")
	f.take(line{Rewound: &rewound{Response: "resp_3", Tree: true}})
	marks(markStart, "2", "2")
	f.take(line{Rewound: &rewound{Response: "resp_2"}}) // the conversation alone
	expect.Equal(t, "the tree", f.mark(), "2")
	f.take(line{Rewound: &rewound{Response: "resp_1", Tree: true}})
	marks(markStart, "2", "3")
	expect.Equal(t, "the tree", f.mark(), markStart)
	f.take(line{Rewound: &rewound{Tree: true}})
	marks("1", "2", "3")
}

// A turn whose container is killed has failed, and the session goes on from the turn before.
func TestContainerDies(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{})
	first := l.turn(x)
	l.play(slow)
	expect.NoError(t, l.pool.Stop(t.Context(), x.id))
	ended := make(chan error)
	post := l.post(x, "turn_slow")
	go func() {
		_, err := x.Turn(context.Background(), "turn_slow", "", "go on", post)
		ended <- err
	}()
	l.wait("a response", func() bool { return len(x.Info().ResponseIDs) == 2 })
	containers, err := l.engine.List(t.Context(), map[string]string{runner.LabelHome: l.home.Dir()})
	expect.NoError(t, err)
	for _, c := range containers {
		expect.NoError(t, l.engine.Remove(t.Context(), c.Handle))
	}
	expect.NoError(t, <-ended)
	list, err := x.Turns()
	expect.NoError(t, err)
	expect.Equal(t, "status", list[1].Status, responses.StatusFailed)
	expect.Equal(t, "what it continued", list[1].PreviousResponseID, first.ResponseID)
	expect.Equal(t, "current", x.Current(), first.ResponseID)
	expect.NoError(t, x.Do(t.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := agent.GetResponse(ctx, list[1].ResponseID)
		if err == nil {
			expect.Equal(t, "agentd's status", resp.Status, responses.StatusFailed)
		}
		return err
	}))
	l.play(write)
	expect.Equal(t, "the next continues", *l.turn(x).Response.PreviousResponseID, first.ResponseID)
}

// What a client asks for after the end of a turn waits until that is in the log. agentd, of which there is none here,
// is not asked for an end that was seen.
func TestSeenEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		home, err := state.MakeHome(dir, "")
		expect.NoError(t, err)
		l := &lab{T: t, home: home, opts: Options{Home: home, Pool: none{}, Log: slog.New(slog.DiscardHandler)}}
		l.open()
		l.decided = patience
		x := l.start(Ask{})
		_, err = x.begin("turn_1", "", func(error) {})
		expect.NoError(t, err)
		(&recorder{x, "turn_1"}).Fact(turns.RuntimeEvent{Type: turns.TurnCompleted})
		held := make(chan int, 1)
		go func() {
			release, err := x.holdSettled(t.Context())
			expect.NoError(t, err)
			held <- x.Info().Usage.Turns
			release()
		}()
		synctest.Wait()
		if len(held) > 0 {
			t.Error("a turn may begin before the end of the one before is in the log")
		}
		x.end("turn_1", runner.End{}, nil)
		expect.Equal(t, "turns", <-held, 1)
	})
}
