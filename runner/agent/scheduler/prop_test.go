package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// op is one thing that happens. N chooses among its variants.
type op struct {
	Do    string
	Agent string
	N     int
	Crash string // boundary at which the process ends during it; "": it does not
}

// String makes scripts that fail readable.
func (o op) String() string {
	s := fmt.Sprintf("%s %s %d", o.Do, o.Agent, o.N)
	if o.Crash != "" {
		s += " crash:" + o.Crash
	}
	return s
}

func (o op) GoString() string { return "\n\t" + o.String() }

var boundaries = map[string]boundary{"before": beforeStep, "unwritten": beforeWrite, "committed": afterCommit,
	"within": withinStep}

// scripts are of about thirty things that happen, each of the kinds as often as
// it is named. They are drawn in parts, so that they are long and can shrink to
// nothing.
func scripts(kinds string) *rapid.Generator[[]op] {
	part := rapid.SliceOfN(ops(strings.Fields(kinds)), 0, 12)
	return rapid.Custom(func(t *rapid.T) (script []op) {
		for range 6 {
			script = append(script, part.Draw(t, "part")...)
		}
		return script
	})
}

func ops(kinds []string) *rapid.Generator[op] {
	return rapid.Custom(func(t *rapid.T) op {
		return op{
			Do:    rapid.SampledFrom(kinds).Draw(t, "do"),
			Agent: rapid.SampledFrom([]string{"alpha", "alpha", "alpha", "alpha", "beta"}).Draw(t, "agent"),
			N:     rapid.IntRange(0, 11).Draw(t, "n"),
			Crash: rapid.SampledFrom([]string{"", "", "", "", "", "before", "unwritten", "committed", "within"}).Draw(t, "crash"),
		}
	})
}

// often is what happens; what keeps turns going is there more than once.
const often = `admit admit admit keyed wake wake deliver rotate revoke timer cancel clock clock clock
	begin begin begin begin begin begin tool sleep sleep sleep sleep offer offer finish finish finish ` +
	`finish fail enqueue
	abort stop start start work expire export `

// do makes one thing happen and checks what must hold. A crash during it is
// followed by recovery; who had asked asks again unless it was done.
func (w *world) do(i int, o op) {
	w.store.armed, w.store.committed = o.Crash != "", false
	w.store.where, w.store.after, w.store.calls = boundaries[o.Crash], o.N%2, o.N*2
	err := w.apply(i, o)
	w.store.armed = false
	if errors.Is(err, errCrash) {
		again := !w.store.committed || repeats(o.Do)
		w.crash(o.Do == "lose")
		w.check()
		if again {
			err = w.apply(i, o)
		} else {
			err = nil
		}
	}
	w.must(err)
	w.ok(w.m.FireDue(w.ctx, w.now))
	w.check()
}

// repeats reports whether asking twice is asking once.
func repeats(do string) bool {
	switch do {
	case "admit", "wake", "deliver":
		return false
	}
	return true
}

func (w *world) apply(i int, o op) error {
	switch o.Do {
	case "admit", "keyed", "wake", "deliver", "rotate", "revoke", "timer", "cancel", "clock", "stop", "start", "abort",
		"work", "expire", "export":
		return w.outside(i, o)
	case "crash":
		w.crash(false)
		return nil
	case "lose-all":
		w.crash(true)
		return nil
	case "begin":
		return w.begin(o.Agent, false)
	case "broken":
		return w.begin(o.Agent, true)
	case "offer":
		return w.offer(o.Agent, o.N%3 != 0)
	case "finish", "fail":
		return w.finish(o.Agent, o.Do == "fail")
	case "lose":
		return w.lose(o.Agent)
	}
	if strings.HasPrefix(o.Do, "child-") {
		return w.child(i, o)
	}
	if strings.HasPrefix(o.Do, "ws-") {
		return w.workspace(o)
	}
	if strings.HasPrefix(o.Do, "task") {
		return w.task(i, o)
	}
	if strings.HasPrefix(o.Do, "work") {
		return w.work(i, o)
	}
	if strings.HasPrefix(o.Do, "rec-") {
		return w.recorded(i, o)
	}
	t := w.running[o.Agent]
	if t == nil {
		return nil
	}
	return w.during(t, i, o)
}

// during is what a turn does while it runs.
func (w *world) during(t *turn, i int, o op) error {
	switch o.Do {
	case "tool":
		if t.newest != i+1 { // not again when it is asked again
			t.newest = i + 1
			t.call(o.N)
		}
		return w.mirrored(t)
	case "sleep":
		_, err := w.m.Sleep(w.ctx, o.Agent, fmt.Sprint("call", i), time.Duration(o.N/2)*time.Minute, "rest")
		return err
	case "enqueue":
		_, err := w.m.Admit(w.ctx, ledger.Message{
			AgentID: o.Agent, Key: fmt.Sprint("call", i), Kind: ledger.KindInternalFollowup,
			Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "enqueue"},
			Body:   ledger.Body{Type: "text", Text: "go on"}, Surface: ledger.SurfaceSystem,
			AdmissionContext: ledger.RuntimeOwned,
		})
		return err
	}
	panic("unknown: " + o.Do)
}

// outside is what others ask of the runtime.
func (w *world) outside(i int, o op) (err error) {
	switch o.Do {
	case "admit", "keyed":
		_, err = w.m.Admit(w.ctx, ingress(o, i))
	case "wake":
		wake := scheduler.Wake{AgentID: o.Agent, Context: ledger.ControlAuthenticated,
			WakeHint: ledger.WakeHint{Reason: "look"}}
		if o.N%2 == 0 {
			wake.Description = "news"
		}
		_, err = w.m.Wake(w.ctx, wake)
	case "deliver":
		_, err = w.m.Deliver(w.ctx, scheduler.Delivery{Token: w.tokens[o.Agent],
			WakeHint: ledger.WakeHint{Source: "forge", Body: json.RawMessage(`{"n":1}`)}})
	case "rotate":
		var token string
		if _, token, err = w.m.RotateTrigger(w.ctx, o.Agent, ""); err == nil {
			w.tokens[o.Agent] = token
		}
	case "revoke":
		_, err = w.m.RevokeTrigger(w.ctx, o.Agent, "")
	case "timer":
		var timer ledger.Timer
		timer, _, err = w.m.CreateTimer(w.ctx,
			scheduler.NewTimer{AgentID: o.Agent, Key: fmt.Sprint("timer", i), After: time.Duration(o.N) * time.Minute,
				Interval: time.Duration(o.N%3) * time.Minute})
		if err == nil {
			w.timers = append(w.timers, timer.ID)
		}
	case "cancel":
		if len(w.timers) > 0 {
			_, err = w.m.CancelTimer(w.ctx, w.timers[o.N%len(w.timers)])
		}
	case "clock":
		if w.ticked != i+1 { // not again when it is asked again
			w.ticked, w.now = i+1, w.now.Add(time.Duration(o.N)*40*time.Second)
		}
		_, _, err = w.m.FireDue(w.ctx, w.now)
	case "work":
		_, err = w.m.WaitFor(w.ctx, ledger.Wait{ID: fmt.Sprint("wait_work", i), AgentID: o.Agent,
			Owner: fmt.Sprint("work_", o.N%2), Kind: ledger.WaitExternal, WaitingFor: "it",
			Wakes: rules.AnyWake()[o.N%5 : o.N%5+1]})
	case "expire":
		err = w.m.ExpireOutputs(w.ctx, o.Agent, w.oldest(o.Agent, o.N/4))
	case "export":
		_, err = w.m.Exported(w.ctx, scheduler.Export{AgentID: o.Agent, Through: int64(o.N) / 4,
			Digest: fmt.Sprint(o.N / 4)})
	case "stop":
		err = w.m.Stop(w.ctx, o.Agent, "test")
	case "start":
		err = w.m.Start(w.ctx, o.Agent, "test")
	case "abort":
		mode := ""
		if o.N%4 == 0 {
			mode = scheduler.StopAfterAbort
		}
		_, _, err = w.m.Abort(w.ctx, scheduler.Abort{AgentID: o.Agent, By: "test", Mode: mode})
	}
	return err
}

// ingress is a message from outside of one of several kinds and priorities.
func ingress(o op, i int) ledger.Message {
	in := ledger.Message{
		AgentID: o.Agent, Kind: ledger.KindOperatorPrompt, Origin: ledger.Origin{Kind: ledger.OriginOperator},
		Priority:         []ledger.Priority{ledger.Interject, ledger.Next, ledger.Normal, ledger.Background}[o.N%4],
		Body:             ledger.Body{Type: "text", Text: fmt.Sprint("message ", i)},
		AdmissionContext: ledger.ControlAuthenticated,
	}
	if o.N/4 > 0 && in.Priority == ledger.Interject { // only a prompt may have it
		in.Priority = ledger.Next
	}
	switch o.N / 4 {
	case 1:
		in.Kind, in.Origin = ledger.KindWebhookEvent, ledger.Origin{Kind: ledger.OriginWebhook, Source: "forge"}
	case 2:
		in.Kind, in.Origin, in.AdmissionContext = ledger.KindTaskStatus,
			ledger.Origin{Kind: ledger.OriginTask, TaskID: "task_1"}, ledger.RuntimeOwned
	}
	if in.Kind == ledger.KindWebhookEvent && in.Priority == ledger.Normal { // of a client, and of its one turn
		in.Surface, in.Request = ledger.SurfaceOpenResponses, []byte(`{"input":"x"}`)
	}
	if o.Do == "keyed" { // one of few, so that some are replays
		in.Key, in.Body.Text = fmt.Sprint("key", o.N), "keyed"
	}
	return in
}

// played runs random scripts of the kinds, each in a world of its own, drains the world and looks at the end.
func played(t *testing.T, kinds string, begin, end func(*world)) {
	t.Parallel()
	gen := scripts(kinds)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		defer w.close()
		begin(w)
		for i, o := range gen.Draw(t, "script") {
			w.do(i, o)
		}
		end(w)
	})
}

// plain is a world as it is.
func plain(*world) {}

// finished lets a world come to its end and looks that nothing is left to do.
func (w *world) finished() {
	w.drain()
	w.checkDrained()
}

// TestInvariants tries random scripts, with and without work items, with crashes at every boundary, containers that
// vanish and engines that fail.
func TestInvariants(t *testing.T) {
	for name, more := range map[string]string{"messages": "broken broken lose ", "work": workOps,
		"workspaces": workspaceOps} {
		t.Run(name, func(t *testing.T) {
			played(t, often+more+"lose crash lose-all", plain, (*world).finished)
		})
	}
}

// TestTasks does the same with tasks. At the end each task has ended and each of its results had its turn.
func TestTasks(t *testing.T) {
	played(t, often+taskOps+"work-create work-pick lose crash lose-all", plain, func(w *world) {
		w.crash(false)
		for _, agent := range w.all() {
			w.tasks.known[agent] = nil // the containers are gone
			w.must(w.follow(agent))
		}
		w.check()
		w.finished()
		w.view(func(v ledger.View) error {
			for _, agent := range w.all() {
				open, err := v.OpenTasks(agent)
				if len(open) > 0 || err != nil {
					w.t.Fatalf("%d tasks of %s have not ended (%v)", len(open), agent, err)
				}
			}
			return nil
		})
	})
}

// TestCrashIsInvisible runs a script with crashes and without. Containers live
// through them, so that everything must end alike. There are no wakes in it: which of
// them become one tick depends on when the queue is empty, which a crash changes.
func TestCrashIsInvisible(t *testing.T) {
	t.Parallel()
	gen := scripts(strings.ReplaceAll(often, "wake wake deliver", "") + "crash")
	rapid.Check(t, func(t *rapid.T) {
		script := gen.Draw(t, "script")
		var ends [2][]string
		for run := range ends {
			w := newWorld(t)
			defer w.close()
			for i, o := range script {
				if run == 0 {
					o.Crash = ""
					if o.Do == "crash" {
						continue
					}
				}
				w.do(i, o)
			}
			w.finished()
			ends[run] = w.fingerprint()
		}
		if diff := cmp.Diff(ends[0], ends[1]); diff != "" {
			t.Fatalf("crashes made a difference (-without +with):\n%s", diff)
		}
	})
}

// TestLostTurnsAreTheOnlyLoss does the same with containers that die with the
// runtime: every message is admitted alike, and ends, and only those whose turn
// was lost twice have no answer.
func TestLostTurnsAreTheOnlyLoss(t *testing.T) {
	kinds := "keyed keyed keyed begin begin begin tool sleep clock finish lose-all lose-all lose"
	played(t, kinds, plain, func(w *world) {
		w.finished()
		lost := map[string]int{}
		for _, turn := range w.containers {
			if turn.end == nil {
				lost[turn.message]++
			}
		}
		for id, status := range w.seen {
			want := ledger.Processed
			most := 2
			if get(w, ledger.View.Message, id).ResponseID() != "" {
				most = 1
			}
			if lost[id] == most {
				want = ledger.Interrupted
			}
			if status != want || lost[id] > most {
				w.t.Fatalf("message %s, of which %d turns were lost, ended as %s", id, lost[id], status)
			}
		}
	})
}
