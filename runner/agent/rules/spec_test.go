package rules_test

import (
	"fmt"
	"testing"
	"time"

	"holon/runner/agent/rules"
	"holon/state/ledger"
	"holon/test/expect"
)

// The situations in which the rows of the runtime specification are tried.
var (
	ended   = rules.Situation{Ended: true}
	failed  = rules.Situation{Ended: true, Failed: true}
	rests   = waits(ledger.WaitSystem, rules.AnyWake()...)
	clock   = waits(ledger.WaitTimer, rules.AnyWake()...)
	outside = waits(ledger.WaitExternal, rules.AnyWake()...)
	asks    = waits(ledger.WaitOperator, ledger.WakeSource{Kind: rules.WakeOperator})
	task    = waits(ledger.WaitTask, ledger.WakeSource{Kind: rules.WakeTaskResult, TaskID: "task_1"})
	work    = rules.Situation{Ended: true, Others: []ledger.Wait{{ID: "wait_2", Owner: "work_1",
		Status: ledger.WaitActive, Kind: ledger.WaitTask,
		Wakes: []ledger.WakeSource{{Kind: rules.WakeTaskResult, TaskID: "task_1"}}}}}
	builds   = with(work, func(s *rules.Situation) { s.Held = &rules.HeldWork{State: rules.WorkWaitingTask} })
	dozes    = with(builds, func(s *rules.Situation) { s.Wait = rests.Wait })
	inquires = with(rests, func(s *rules.Situation) { s.Held = &rules.HeldWork{State: rules.WorkWaitingOperator} })
	goesOn   = with(ended, func(s *rules.Situation) { s.Work = &ledger.WorkSignal{WorkItemID: "work_3"} })
)

func waits(k ledger.WaitKind, wakes ...ledger.WakeSource) rules.Situation {
	w := wait(k, ledger.WaitActive)
	w.Wakes = wakes
	return rules.Situation{Ended: true, Wait: w}
}

// with changes a copy of a situation.
func with(s rules.Situation, change func(*rules.Situation)) rules.Situation {
	change(&s)
	return s
}

// TestSpecifiedClosure has a case for each row of the runtime specification, sections "Agent State" and "Closure
// Decision". Not there: the status paused, which nothing sets.
func TestSpecifiedClosure(t *testing.T) {
	runs := func(s *rules.Situation) { s.RunID = "turn_1" }
	stopped := func(s *rules.Situation) { s.Stopped = true }
	triggered := with(clock, func(s *rules.Situation) {
		s.Wait, s.Queued = wait(ledger.WaitTimer, ledger.WaitTriggered), 1
	})
	for _, c := range []struct {
		row  string
		s    rules.Situation
		want string // status, outcome, waiting reason and posture of the closure, posture
	}{
		{"Agent State: booting initializes", rules.Situation{Booting: true}, "booting unknown"},
		{"Agent State: awake_idle is ready, its queue may be empty", ended, "awake_idle completed - awake idle"},
		{"Agent State: awake_idle is ready, its queue may be full",
			with(ended, func(s *rules.Situation) { s.Queued = 1 }), "awake_idle completed - awake has_queued_input"},
		{"Agent State: awake_running processes a run", with(ended, runs), "awake_running completed - awake active_turn"},
		{"Agent State: awaiting_task waits for a delegated result", task,
			"awaiting_task waiting awaiting_task_result sleeping waiting_for_task"},
		{"Agent State: asleep is dormant with intent", rests, "asleep completed - sleeping idle"},
		{"Agent State: stopped ends it", with(ended, stopped), "stopped completed - sleeping blocked"},
		{"Agent State: stopped comes before a run", with(with(ended, runs), stopped),
			"stopped completed - sleeping active_turn"},
		{"Closure: completed requires a terminal turn", rules.Situation{}, "awake_idle idle"},
		{"Closure: a first turn that runs is not complete", with(rules.Situation{}, runs), "awake_running active_turn"},
		{"Closure: completed", ended, "awake_idle completed - awake idle"},
		{"Closure: failed", failed, "awake_idle failed - awake idle"},
		{"Closure: failed has no waiting reason", with(asks, func(s *rules.Situation) { s.Failed = true }),
			"asleep failed - sleeping waiting_for_operator"},
		{"Closure: waiting for the operator", asks, "asleep waiting awaiting_operator_input sleeping waiting_for_operator"},
		{"Closure: waiting for an external change", outside,
			"asleep waiting awaiting_external_change sleeping waiting_for_external"},
		{"Closure: waiting for a task", task, "awaiting_task waiting awaiting_task_result sleeping waiting_for_task"},
		{"Closure: waiting for a timer", clock, "asleep waiting awaiting_timer sleeping idle"},
		{"Closure: what came is waited for no more", triggered, "awake_idle completed - awake has_queued_input"},
		{"Closure: a wait of work that is done is not the agent's", work, "awake_idle completed - awake idle"},
		{"Closure: work that waits for the operator has the agent wait", inquires,
			"asleep waiting awaiting_operator_input sleeping waiting_for_operator"},
		{"Closure: work that waits for a task has the agent wait", builds,
			"awaiting_task waiting awaiting_task_result sleeping waiting_for_task"},
		{"Closure: an agent that rests waits for the task of its work", dozes,
			"awaiting_task waiting awaiting_task_result sleeping waiting_for_task"},
		{"Closure: continuable needs no new trigger", goesOn, "awake_idle continuable - awake has_runnable_work"},
		{"Closure: continuable while other work waits for a task",
			with(dozes, func(s *rules.Situation) { s.Work = goesOn.Work }), "asleep continuable - sleeping has_runnable_work"},
		{"Closure: not continuable while it waits for a timer",
			with(clock, func(s *rules.Situation) { s.Work = goesOn.Work }), "asleep waiting awaiting_timer sleeping idle"},
		{"Closure: posture is awake while something is queued", with(clock, func(s *rules.Situation) { s.Queued = 1 }),
			"awake_idle waiting awaiting_timer awake has_queued_input"},
		{"Closure: failed while it rests", with(clock, func(s *rules.Situation) { s.Failed = true }),
			"asleep failed - sleeping idle"},
		{"its next turn cannot begin yet", with(ended, func(s *rules.Situation) { s.Queued, s.RetryAt = 1, &time.Time{} }),
			"awake_idle completed - awake blocked"},
		{"its work waits for others", held(rules.WorkWaitingExternal, nil),
			"asleep waiting awaiting_external_change sleeping waiting_for_external"},
		{"its work is blocked", held(rules.WorkBlocked, nil), "asleep waiting awaiting_external_change sleeping blocked"},
		{"its work is blocked and it rests", held(rules.WorkBlocked, rests.Wait),
			"asleep waiting awaiting_external_change sleeping blocked"},
		{"its work is blocked and it has a time", held(rules.WorkBlocked, clock.Wait),
			"asleep waiting awaiting_timer sleeping idle"},
		{"stopped from going on, with results of tasks", with(asks, func(s *rules.Situation) { s.Queued, s.Kept = 2, true }),
			"asleep waiting awaiting_operator_input sleeping waiting_for_operator"},
		{"stopped with a queue", with(with(ended, stopped), func(s *rules.Situation) { s.Queued = 3 }),
			"stopped completed - sleeping blocked"},
		{"archived", with(ended, func(s *rules.Situation) { s.Archived = true }), "stopped completed - sleeping archived"},
	} {
		t.Run(c.row, func(t *testing.T) {
			got := string(c.s.Status())
			if d := c.s.Closure(); d != nil {
				got += fmt.Sprintf(" %s %s %s", d.Outcome, or(d.WaitingReason), d.Posture)
				if len(d.Evidence) == 0 || (d.WorkSignal != nil) != (d.Outcome == ledger.OutcomeContinuable) {
					t.Errorf("the closure is %+v", d)
				}
			}
			posture := c.s.Posture()
			if got += " " + posture.Posture; posture.Reason == "" {
				t.Error("the posture has no reason")
			}
			expect.Equal(t, "what is done, and the posture", got, c.want)
		})
	}
}

// TestSpecifiedContinuation has a case for each row of the runtime specification, sections "Continuation Resolution",
// "Wake Conditions" and "SystemTick".
func TestSpecifiedContinuation(t *testing.T) {
	content, through := message(ledger.KindSystemTick), message(ledger.KindSystemTick)
	content.Body = ledger.Body{Type: "json", Value: []byte(`{}`)}
	through.SourceRefs = map[string]string{"external_trigger_id": "trg_1"}
	timeUp := message(ledger.KindTimerTick)
	timeUp.SourceRefs = map[string]string{"timer_id": "wait_1"}
	running := with(clock, func(s *rules.Situation) { s.RunID = "turn_1" })
	otherTask := waits(ledger.WaitTask, ledger.WakeSource{Kind: rules.WakeTaskResult, TaskID: "task_2"})
	triggered := func(messageID string) rules.Situation {
		w := wait(ledger.WaitTimer, ledger.WaitTriggered)
		w.MessageID = messageID
		return rules.Situation{Ended: true, Wait: w}
	}
	const (
		prompt, channel, webhook = ledger.KindOperatorPrompt, ledger.KindChannelEvent, ledger.KindWebhookEvent
		callback, tick, result   = ledger.KindCallbackEvent, ledger.KindTimerTick, ledger.KindTaskResult
		followup, status, plain  = ledger.KindInternalFollowup, ledger.KindTaskStatus, ledger.KindSystemTick
	)
	for _, c := range []struct {
		row  string
		s    rules.Situation
		m    ledger.Message
		want string // class, prior outcome, prior waiting reason; then turn and matched, where they are so
	}{
		{"Continuation: before any turn nothing is prior", rules.Situation{}, message(prompt),
			"local_continuation - - turn"},
		{"Continuation: after completed", ended, message(prompt), "local_continuation completed - turn"},
		{"Continuation: after continuable", goesOn, content, "local_continuation continuable - turn"},
		{"Continuation: after failed", failed, message(prompt), "local_continuation failed - turn"},
		{"Continuation: the run that takes it hides no follow-up", running, message(followup),
			"local_continuation waiting awaiting_timer turn"},
		{"Continuation: the run that takes it hides no timer", running, timeUp,
			"resume_expected_wait waiting awaiting_timer turn matched"},
		{"Continuation: TaskResult rejoins", task, message(result),
			"resume_expected_wait waiting awaiting_task_result turn matched"},
		{"Continuation: TaskResult rejoins without a wait", ended, message(result),
			"local_continuation completed - turn"},
		{"Continuation: TaskResult rejoins for the work that waits", work, message(result),
			"local_continuation completed - turn"},
		{"Continuation: TaskResult rejoins for work that waits for it", builds, message(result),
			"resume_expected_wait waiting awaiting_task_result turn matched"},
		{"Continuation: TaskResult rejoins an agent that rests", dozes, message(result),
			"resume_expected_wait waiting awaiting_task_result turn matched"},
		{"Continuation: operator_input overrides a wait of work", dozes, message(prompt),
			"resume_override waiting awaiting_task_result turn"},
		{"Continuation: operator_input is what work waits for", inquires, message(prompt),
			"resume_expected_wait waiting awaiting_operator_input turn matched"},
		{"Continuation: an event is not the operator that work waits for", inquires, message(webhook),
			"local_continuation waiting awaiting_operator_input turn"},
		{"Continuation: a timer is not the task that is waited for", dozes, message(tick),
			"local_continuation waiting awaiting_task_result turn"},
		{"Continuation: TaskStatus is observed", task, message(status),
			"liveness_only waiting awaiting_task_result"},
		{"Continuation: TimerTick resumes without its timer", ended, message(tick),
			"local_continuation completed - turn"},
		{"Continuation: SystemTick may be liveness only", ended, message(plain), "liveness_only completed -"},
		{"Continuation: SystemTick with content is visible", ended, content, "local_continuation completed - turn"},
		{"Continuation: SystemTick with content overrides nothing", asks, content,
			"local_continuation waiting awaiting_operator_input turn"},
		{"Continuation: plain hints stay liveness signals", asks, message(plain),
			"liveness_only waiting awaiting_operator_input"},
		{"Continuation: what is outside is not the operator", asks, message(webhook),
			"local_continuation waiting awaiting_operator_input turn"},
		{"Continuation: operator_input overrides a wait for a task", task, message(prompt),
			"resume_override waiting awaiting_task_result turn"},
		{"Continuation: operator_input overrides a rest by the clock", clock, message(prompt),
			"resume_override waiting awaiting_timer turn"},
		{"Continuation: operator_input overrides a wait for an external change", outside, message(prompt),
			"resume_override waiting awaiting_external_change turn"},
		{"Continuation: operator_input is what is waited for", asks, message(prompt),
			"resume_expected_wait waiting awaiting_operator_input turn matched"},
		{"Continuation: an event is what is waited for", outside, message(webhook),
			"resume_expected_wait waiting awaiting_external_change turn matched"},
		{"Continuation: a timer is not the event that is waited for", outside, message(tick),
			"local_continuation waiting awaiting_external_change turn"},
		{"Wake: operator_prompt", rests, message(prompt), "resume_expected_wait completed - turn matched"},
		{"Wake: channel_event", rests, message(channel), "resume_expected_wait completed - turn matched"},
		{"Wake: webhook_event", rests, message(webhook), "resume_expected_wait completed - turn matched"},
		{"Wake: callback_event", rests, message(callback), "resume_expected_wait completed - turn matched"},
		{"Wake: timer_tick", rests, message(tick), "resume_expected_wait completed - turn matched"},
		{"Wake: task_result", rests, message(result), "resume_expected_wait completed - turn matched"},
		{"Wake: system_tick", rests, message(plain), "resume_expected_wait completed - turn matched"},
		{"Wake: task_status is looked at", rests, message(status), "liveness_only completed -"},
		{"Wake: prompt that triggered a rest by the clock", triggered("msg_1"), message(prompt),
			"resume_override waiting awaiting_timer turn"},
		{"Wake: prompt before what triggered a rest", triggered("msg_0"), message(prompt),
			"resume_override waiting awaiting_timer turn"},
		{"Wake: what triggered a rest", triggered("msg_1"), timeUp,
			"resume_expected_wait waiting awaiting_timer turn matched"},
		{"Wake: result of another task", otherTask, message(result),
			"local_continuation waiting awaiting_task_result turn"},
		{"Wake: webhook overrides nothing", task, message(webhook), "local_continuation waiting awaiting_task_result turn"},
		{"Wake: event during a rest by the clock", clock, message(webhook),
			"local_continuation waiting awaiting_timer turn"},
		{"Wake: control is looked at", rests, message(ledger.KindControl), "liveness_only completed -"},
		{"Wake: brief_result is looked at", ended, message(ledger.KindBriefResult), "liveness_only completed -"},
		{"Wake: internal_followup", ended, message(followup), "local_continuation completed - turn"},
		{"Wake: internal_followup ends a rest", rests, message(followup),
			"resume_expected_wait completed - turn matched"},
		{"SystemTick: liveness_only", task, message(plain), "liveness_only waiting awaiting_task_result"},
		{"SystemTick: local_continuation", clock, message(plain), "local_continuation waiting awaiting_timer turn"},
		{"SystemTick: resume_expected_wait, from an external trigger", outside, through,
			"resume_expected_wait waiting awaiting_external_change turn matched"},
	} {
		t.Run(c.row, func(t *testing.T) {
			got := rules.Continue(c.s, c.m, false)
			text := fmt.Sprintf("%s %s %s", got.Class, or(got.PriorOutcome), or(got.PriorWaiting))
			if got.ModelVisible {
				text += " turn"
			}
			if got.MatchedWait {
				text += " matched"
			}
			if text != c.want || len(got.Evidence) == 0 {
				t.Errorf("got %q with the evidence %q, want %q", text, got.Evidence, c.want)
			}
		})
	}
	again := rules.Continue(ended, message(plain), true)
	if again.Class != ledger.LocalContinuation || !again.ModelVisible {
		t.Errorf("a plain tick whose turn was lost: %+v", again)
	}
}

// or is a text, or a dash for none.
func or[T ~string](text T) string {
	if text == "" {
		return "-"
	}
	return string(text)
}
