package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/credentials"
	"holon/state"
	"holon/state/ledger"
)

// watch follows a message until it has ended. Unless it is quiet it shows what the agent does for the message. shells
// counts the commands that were run.
func (r *remote) watch(ctx context.Context, sent wire.Enqueued, quiet bool) (end view.MessageState, shells int,
	err error) {
	end, err = r.messageNow(ctx, sent)
	// the events of a new message are read also when it has ended already: they tell which commands were run
	if err != nil || ended(end) && (sent.Replayed || end.Entry.Blocked()) {
		if err == nil {
			err = r.events.upTo(ctx, math.MaxInt64)
		}
		return end, 0, err
	}
	r.streams.watch(true)
	w := &messageWatch{remote: r, sent: sent, quiet: quiet, live: r.showLive(quiet || r.streaming()),
		turns: map[string]bool{}}
	defer func() { r.told = w.live.close(lastOf(end)) }()
	follow := client.Follow{After: max(sent.EventSeq-1, 0), Text: w.live.on, Away: r.sayAway}
	for item, err := range r.Follow(ctx, sent.AgentID, follow) {
		if err != nil {
			return end, w.shells, r.stoppedWatching(ctx, err, sent.AgentID)
		}
		if ev := item.Event; ev != nil {
			if err := follow.Read(ctx, func() error { return r.events.upTo(ctx, ev.EventSeq) }); err != nil {
				return end, w.shells, r.stoppedWatching(ctx, err, sent.AgentID)
			}
		}
		if !w.take(item) {
			continue
		}
		err = follow.Read(ctx, func() (err error) {
			if end, err = r.messageNow(ctx, sent); err == nil && ended(end) {
				err = r.events.upTo(ctx, math.MaxInt64)
			}
			return err
		})
		if err != nil || ended(end) {
			return end, w.shells, r.stoppedWatching(ctx, err, sent.AgentID)
		}
	}
	return end, w.shells, context.Cause(ctx)
}

// messageWatch shows what an agent does for a message.
type messageWatch struct {
	*remote
	sent   wire.Enqueued
	quiet  bool
	live   *liveAnswer
	turns  map[string]bool // that were made for the message
	shells int             // commands that were run
}

// take shows an item of the stream, and reports whether the message may have ended.
func (w *messageWatch) take(item client.Item) (mayHaveEnded bool) {
	ev := item.Event
	switch {
	case item.Text != nil && item.Text.MessageID == w.sent.MessageID:
		w.live.write(item.Text)
		return false
	case ev == nil:
		return item.Reset != nil
	}
	ours := ev.Provenance.MessageID == w.sent.MessageID
	if ours && ev.Provenance.TurnID != "" {
		w.turns[ev.Provenance.TurnID] = true
	}
	ours = ours || w.turns[ev.Provenance.TurnID]
	if ours && ev.Type == record.ToolExecuted && isShell(ev) {
		w.shells++
	}
	if ours && !w.quiet {
		w.showDoing(w.live, ev)
	}
	return ev.Type == record.AgentStateChanged || ours && mayEnd[ev.Type]
}

// ended reports whether waiting for a message makes no sense any more: it has ended, or a setting has to change before
// a turn can be run for it.
func ended(end view.MessageState) bool { return end.Entry.Status.Terminal() || end.Entry.Blocked() }

// mayEnd are the events of a message after which it is asked what became of it.
var mayEnd = map[string]bool{record.QueueEntrySettled: true, record.QueueEntryQuarantined: true,
	record.QueueEntryBlocked: true, record.QueueEntryRequeued: true, record.TurnTerminal: true}

// messageNow asks what became of a message. One in the queue of a stopped agent is blocked, as that does not take it
// before it is started. The agent is asked first: what it has claimed before it was stopped is not queued.
func (r *remote) messageNow(ctx context.Context, sent wire.Enqueued) (view.MessageState, error) {
	agent, err := r.Status(ctx, sent.AgentID)
	if err != nil {
		return view.MessageState{}, err
	}
	end, err := r.Message(ctx, sent.AgentID, sent.MessageID)
	if err == nil && agent.Agent.Status == rules.Stopped && end.Entry.Status == ledger.Queued {
		end.Entry.Status, end.Entry.Code = ledger.Blocked, string(scheduler.CodeAgentStopped)
		end.Entry.Reason = "the agent is stopped"
	}
	return end, err
}

// sayAway says why nothing happens while the daemon is away.
func (r *remote) sayAway(patience time.Duration) {
	r.streams.say("holon: the daemon does not answer; it is waited for, " + duration.Text(patience) + " at most")
}

// stoppedWatching says that the agent goes on although the command no longer watches it.
func (r *remote) stoppedWatching(ctx context.Context, err error, agentID string) error {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errReaderGone) {
		r.streams.say("holon: no longer watched; the agent goes on: holon tail -f --agent " + agentID)
	}
	return err
}

// isShell reports whether the call that an event tells of ran commands.
func isShell(ev *view.EventEnvelope) bool {
	var data struct {
		Tool string `json:"tool_name"`
	}
	return json.Unmarshal(ev.Payload.Data, &data) == nil &&
		(data.Tool == "ExecCommand" || data.Tool == "ExecCommandBatch")
}

// showDoing prints what an event tells that is not the answer itself.
func (r *remote) showDoing(live *liveAnswer, ev *view.EventEnvelope) {
	switch ev.Type {
	case record.ModelDelta:
		var data record.Text
		if json.Unmarshal(ev.Payload.Data, &data) == nil && !live.recorded(data) &&
			data.Phase == responses.PhaseCommentary {
			live.line(r.streams.oneLine(data.Delta, 500))
		}
		return
	case record.ProviderRound:
		var f turns.AttemptFailure
		if json.Unmarshal(ev.Payload.Data, &f) != nil || f.Outcome == turns.OutcomeSucceeded {
			return
		}
		if _, line := retry(f, &r.retried); line != "" {
			live.line(r.streams.oneLine(line, 500))
		}
		return
	case record.ToolExecuted:
		r.showExecuted(live, ev)
		return
	case record.TurnStarted, record.SchedulerDiagnostic, record.RuntimeError, record.WaitRegistered,
		record.CurrentRunAborted, record.QueueEntryQuarantined:
	default:
		return
	}
	live.line(r.streams.oneLine(ev.Display.Summary, 500))
}

// showExecuted prints a call of a tool as the progress of a run does.
func (r *remote) showExecuted(live *liveAnswer, ev *view.EventEnvelope) {
	var data struct {
		Tool       string          `json:"tool_name"`
		Call       string          `json:"call"`
		Files      []activity.File `json:"files"`
		Summary    string          `json:"summary"`
		Error      string          `json:"message"`
		DurationMS int64           `json:"duration_ms"`
		ExitCode   *int            `json:"exit_code"`
		Preview    string          `json:"preview"`
	}
	if json.Unmarshal(ev.Payload.Data, &data) != nil {
		return // its line in holon tail says what there is
	}
	note := outcomeNote(data.ExitCode, len(data.Files) > 0, data.Summary)
	if data.Error != "" {
		note = "  failed: " + visible.OneLine(data.Error, 160)
	} else {
		r.noteEdits(data.Files)
	}
	call := visible.OneLine(cmp.Or(data.Call, data.Tool), 3000)
	live.line(r.streams.defuse(r.streams.callLine(call, took(data.DurationMS)+note)))
	if !r.streams.ErrTTY || data.ExitCode == nil || note == "" && data.DurationMS < longCommand.Milliseconds() {
		return
	}
	for _, text := range activity.LastLines(data.Preview, maxDetails/2) {
		live.line("    " + r.streams.paint(styleDim, r.streams.defuse(cut(text, r.streams.ofErr().Width()-7))))
	}
}

// noteEdits counts the lines that an edit changed for the end of the turn.
func (r *remote) noteEdits(files []activity.File) {
	for _, f := range files {
		i := slices.IndexFunc(r.edited, func(known activity.File) bool { return known.Path == f.Path })
		if i < 0 {
			r.edited = append(r.edited, f)
			continue
		}
		r.edited[i].Added += f.Added
		r.edited[i].Deleted += f.Deleted
	}
}

// finalStatus is how a message ended, in the words of the runtime's surface.
func finalStatus(end view.MessageState) string {
	switch {
	case end.Turn == nil || end.Entry.Status == ledger.Interrupted:
		return "failed"
	case end.Turn.Reason == responses.ReasonMaxRounds:
		return "max_turns_exceeded"
	case end.Turn.Kind != ledger.TurnCompleted:
		return "failed"
	}
	switch end.Turn.Closure.Outcome {
	case ledger.OutcomeFailed:
		return "failed"
	case ledger.OutcomeWaiting:
		return "waiting"
	}
	return "completed"
}

// outcomeOf is what a message's end makes of a command, in the words and exit codes of a run (docs/reference/run.md).
// The error says what went wrong, nil when nothing did.
func outcomeOf(end view.MessageState) (state.Outcome, error) {
	t, who := end.Turn, end.Message.AgentID
	subject := agentSubject(who)
	if end.Entry.Blocked() {
		return state.OutcomeRefused, &state.Error{Code: "blocked", Param: subject,
			Message: "no turn can be run: " + end.Entry.Reason,
			Hint: unblocking(state.Code(end.Entry.Code), who) +
				"; or take it back: holon queue remove --agent " + who + " " + end.Message.ID}
	}
	if t == nil || end.Entry.Status == ledger.Quarantined {
		outcome := state.OutcomeRefused
		if end.Entry.Status == ledger.Aborted {
			outcome = state.OutcomeCancelled
		}
		return outcome, &state.Error{Code: state.Code(end.Entry.Status), Param: subject,
			Message: "no turn was run for the message: " + cmp.Or(end.Entry.Reason, string(end.Entry.Status)),
			Hint:    "see: holon status --agent " + who}
	}
	if t.Kind == ledger.TurnCompleted {
		if t.Closure.WaitingReason == ledger.AwaitingOperator {
			return state.OutcomeWaiting, nil
		}
		if finalStatus(end) != "failed" {
			return state.OutcomeSuccess, nil
		}
	}
	outcome, failure := state.OutcomeFailure, ledger.Failure{Summary: cmp.Or(t.Reason, string(end.Entry.Status))}
	if t.Failure != nil {
		failure = *t.Failure
	}
	switch {
	case failure.Code == scheduler.FailureAborted: // an entry is also "aborted" when its turn failed
		outcome = state.OutcomeCancelled
	case t.Reason == responses.ReasonTimeout:
		outcome = state.OutcomeDeadline
	}
	return outcome, &state.Error{Code: state.Code(cmp.Or(t.Reason, "failed")), Param: subject,
		Message: "the turn did not complete: " + failure.Summary,
		Hint:    cmp.Or(failure.Hint, "see: holon transcript --agent "+who)}
}

// agentSubject is an agent as the subject of an error that no setting or argument is at fault for.
func agentSubject(id string) string { return "agent " + id }

// unblocking says what lets a message go on that is blocked for a reason of that code. A missing key may be a variable,
// of which the daemon has those that it was started with.
func unblocking(code state.Code, who string) string {
	switch code {
	case scheduler.CodeAgentStopped:
		return "the message stays queued until: " + rules.StartHint(who)
	case credentials.CodeMissing:
		return "the message stays queued and is tried again when the key is stored, or when the variable is set and the " +
			"daemon has it: holon daemon restart"
	default:
		return "the message stays queued until a setting, the model or the daemon changes, or is tried again at once " +
			"with: holon agent start " + who
	}
}

// endedWord is how a turn ended, for a person: in the words of a run's status, and those that only agents have.
func endedWord(end view.MessageState, outcome state.Outcome) string {
	switch outcome {
	case state.OutcomeWaiting:
		return "waiting"
	case state.OutcomeCancelled:
		return "aborted"
	}
	return string(statusOf(end))
}

// showAnswer prints how a message ended: the answer on stdout, the rest on
// stderr. Its error is the exit code.
func (r *remote) showAnswer(end view.MessageState, quiet bool) error {
	outcome, err := outcomeOf(end)
	if t := end.Turn; t != nil {
		if t.Last != "" && !r.told {
			if err := r.streams.printAnswer(t.Last); err != nil {
				return err
			}
		}
		if !quiet {
			fmt.Fprintf(r.streams.Err, "%s in %s: %s, %s\n", endedWord(end, outcome), elapsed(t.DurationMS),
				count(t.ModelRounds, "round"), count(t.ToolCalls, "tool call"))
			for _, f := range r.edited {
				fmt.Fprintf(r.streams.Err, "  edited   %s  +%d −%d\n", visible.Name(f.Path), f.Added, f.Deleted)
			}
			if t.Usage != nil && t.Usage.TotalTokens > 0 {
				fmt.Fprintln(r.streams.Err, "tokens   "+tokensOf(t.Usage))
			}
		}
	}
	return r.streams.showOutcome(outcome, err)
}

// showOutcome says what went wrong, nil when nothing did, and makes the exit code of the outcome the program's.
func (s Streams) showOutcome(outcome state.Outcome, failure error) error {
	if failure != nil {
		s.sayFailure(describe(failure))
	}
	return outcomeExit(outcome)
}

// outcomeExit makes the exit code of an outcome the program's.
func outcomeExit(outcome state.Outcome) error {
	if code := outcome.ExitCode(); code != 0 {
		return exitError(code)
	}
	return nil
}
