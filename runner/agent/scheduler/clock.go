package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holon/internal/crontab"
	"holon/responses"
	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

// FireDue makes ticks of the timers and waits whose time has come, of all agents
// that are not stopped, and ends waits that expired. It returns when it should be
// called next; ok is false when nothing waits for a time. An agent whose records cannot be read stops none of the
// others.
func (m *Scheduler) FireDue(ctx context.Context, now time.Time) (next time.Time, ok bool, err error) {
	now = now.UTC().Truncate(time.Millisecond)
	due, err := ledger.Read(ctx, m.store, func(v ledger.View) (map[string][]func(*step), error) { return dueAt(v, now) })
	if err != nil {
		return time.Time{}, false, fmt.Errorf("look for what is due: %w", err)
	}
	for agentID, fires := range due {
		err := m.stepAt(ctx, now, agentID, aheadOfMost, func(s *step) error {
			for _, f := range fires {
				s.cause = "" // one thing does not come due because of another
				f(s)
			}
			return nil
		})
		switch {
		case err == nil:
		case m.opts.Damaged != nil && Damaged(err):
			m.opts.Damaged(agentID, err)
		default:
			return time.Time{}, false, fmt.Errorf("fire what is due of agent %s: %w", agentID, err)
		}
	}
	err = m.store.View(ctx, func(v ledger.View) (err error) {
		next, ok, err = v.NextDue(now)
		return err
	})
	return next, ok, err
}

// dueAt is what is due of each agent.
func dueAt(v ledger.View, now time.Time) (map[string][]func(*step), error) {
	timers, waits, err := v.Due(now)
	if err != nil {
		return nil, err
	}
	work, err := v.DueWork(now)
	due := map[string][]func(*step){}
	for _, t := range timers {
		due[t.AgentID] = append(due[t.AgentID], func(s *step) { s.fireTimer(t.ID) })
	}
	for _, w := range waits {
		due[w.AgentID] = append(due[w.AgentID], func(s *step) { s.fireWait(w.ID) })
	}
	for _, w := range work {
		due[w.AgentID] = append(due[w.AgentID], func(s *step) { s.fireRecheck(w.ID) })
	}
	return due, err
}

// Damaged reports whether a step failed because of what is recorded of its agent.
func Damaged(err error) bool {
	return state.IsCode(err, ledger.CodeUnreadable) || state.IsCode(err, ledger.CodeNotFound)
}

// fireTimer makes a tick of a timer that is still due, or counts one that comes
// while the tick before it is in the queue. Times that were missed fire once.
func (s *step) fireTimer(id string) {
	t := read(s, ledger.View.Timer, id)
	if s.state.Stopped || t.Status != ledger.TimerActive || t.NextFireAt == nil || t.NextFireAt.After(s.now) {
		return
	}
	missed := advance(&t, s.now)
	if s.queuedNow(t.MessageID) {
		t.Coalesced += missed + 1
		s.update(&t)
		return
	}
	msg := s.timerTick(t.ID, t.Summary,
		map[string]any{"timer_id": t.ID, "fire_count": t.FireCount + 1, "coalesced": missed})
	t.FireCount++
	t.Coalesced += missed
	t.LastFireAt, t.MessageID = &s.now, msg.ID
	s.update(&t)
	s.emitTimer(record.TimerFired, t, ledger.Event{MessageID: msg.ID, Cause: t.Event},
		fields{"fire_count": t.FireCount, "coalesced": t.Coalesced, "status": string(t.Status)})
	s.cause = s.newest()
	s.admit(msg, ledger.FromRuntime)
}

// advance moves a timer that is due to its next time, in the rhythm that it has,
// and returns how many times it missed besides. One without an interval is done.
func advance(t *ledger.Timer, now time.Time) (missed int64) {
	t.UpdatedAt = now
	if t.Cron != "" {
		return advanceCron(t, now)
	}
	if t.IntervalMS <= 0 {
		t.Status, t.NextFireAt = ledger.TimerCompleted, nil
		return 0
	}
	missed = now.Sub(*t.NextFireAt).Milliseconds() / t.IntervalMS
	next := t.NextFireAt.Add(time.Duration(missed+1) * time.Duration(t.IntervalMS) * time.Millisecond)
	t.NextFireAt = &next
	return missed
}

// maxMissed bounds how many times of a crontab are counted that were missed.
const maxMissed = 1000

// advanceCron is advance for a timer with a crontab.
func advanceCron(t *ledger.Timer, now time.Time) (missed int64) {
	schedule, err := crontab.Parse(t.Cron, t.Zone)
	next := *t.NextFireAt
	for missed = -1; err == nil && !next.After(now); missed++ {
		if missed == maxMissed {
			next = now
		}
		next, err = schedule.Next(next)
	}
	t.NextFireAt = &next
	if err != nil { // it never comes again
		t.Status, t.NextFireAt = ledger.TimerCompleted, nil
	}
	return max(0, missed)
}

// fireWait queues the tick that ends a wait whose time has come, or ends one that
// expired.
func (s *step) fireWait(id string) {
	w := read(s, ledger.View.Wait, id)
	if s.state.Stopped || w.Status != ledger.WaitActive {
		return
	}
	switch {
	case w.WakeAt != nil && !w.WakeAt.After(s.now):
		s.wakeUp(w)
	case w.ExpiresAt != nil && !w.ExpiresAt.After(s.now):
		w.Status, w.UpdatedAt, w.EndedAt = ledger.WaitExpired, s.now, &s.now
		s.saveWait(record.WaitExpired, w, ledger.Event{}, nil, s.update)
		s.freeIdle()
	}
}

// wakeUp queues the tick that ends a rest. What it says is of the turn that asked for
// the rest.
func (s *step) wakeUp(w ledger.Wait) {
	tick := s.timerTick(w.ID, w.WaitingFor, map[string]any{"wait_id": w.ID, "wake_at": w.WakeAt})
	a, _ := find(s, ledger.View.Attempt, w.Registered)
	tick.CausationID = a.MessageID
	s.inherit(&tick, ledger.FromSelf)
	s.admit(tick, ledger.FromSelf)
}

// timerTick is the message of a clock: of a timer, or of a wait for a time.
func (s *step) timerTick(id, summary string, metadata map[string]any) ledger.Message {
	if summary == "" {
		summary = "The time is up."
	}
	return s.own(ledger.Message{Kind: ledger.KindTimerTick, Surface: ledger.SurfaceTimer,
		Origin: ledger.Origin{Kind: ledger.OriginTimer, TimerID: id}, Body: ledger.Body{Type: "text", Text: summary},
		Metadata: mustJSON(metadata)})
}

// Bounds of timers.
const (
	minInterval = time.Second
	maxTimer    = 10 * 366 * 24 * time.Hour
	maxTimers   = 256 // of one agent that are active
)

// CreateTimer makes a timer. One with the key of an earlier one is answered with
// that. Errors: CodeInvalidTimer, CodeKeyConflict, ledger.CodeNotFound.
func (m *Scheduler) CreateTimer(ctx context.Context, n NewTimer) (t ledger.Timer, made bool, err error) {
	if err := checkTimer(n); err != nil {
		return ledger.Timer{}, false, err
	}
	err = m.step(ctx, n.AgentID, func(s *step) error {
		t, made = s.newTimer(n), false
		if n.Key != "" {
			old, known := find(s, ledger.View.Timer, t.ID)
			if known && (old.DurationMS != t.DurationMS || old.IntervalMS != t.IntervalMS || old.Cron != t.Cron ||
				old.Zone != t.Zone || old.Summary != t.Summary) {
				return refused(CodeKeyConflict, "idempotency_key", "use another key for another timer",
					"the key was used for timer %s, which is another one", old.ID)
			}
			if known {
				t = old
				return nil
			}
		}
		if err := s.checkLive(); err != nil {
			return err
		}
		if err := s.checkTimers(); err != nil {
			return err
		}
		t.Event = responses.NewID(responses.PrefixEvent)
		s.emitTimer(record.TimerCreated, t, ledger.Event{ID: t.Event},
			fields{"duration_ms": t.DurationMS, "interval_ms": t.IntervalMS, "cron": t.Cron, "zone": t.Zone,
				"next_fire_at": t.NextFireAt})
		made = true
		s.insert(&t)
		return nil
	})
	return t, made, err
}

func checkTimer(n NewTimer) error {
	if bad := shortTexts("idempotency_key", n.Key, "summary", n.Summary); bad != nil {
		return refused(CodeInvalidTimer, bad.Param, "", "%s", bad.Message)
	}
	switch {
	case n.Cron != "" && (n.After != 0 || n.Interval != 0):
		return refused(CodeInvalidTimer, "cron", "leave out duration_ms and interval_ms",
			"a timer has times of a crontab or a duration, not both")
	case n.Cron == "" && n.Zone != "":
		return refused(CodeInvalidTimer, "zone", "give cron too, or leave it out", "a zone is for the times of a crontab")
	case n.Cron != "":
		_, err := crontab.Parse(n.Cron, n.Zone)
		if bad, ok := errors.AsType[*crontab.Error](err); ok {
			return refused(CodeInvalidTimer, bad.Param, bad.Hint, "%s", bad.Message)
		}
	case n.After < 0 || n.After > maxTimer:
		return refused(CodeInvalidTimer, "duration_ms", "", "a timer fires after 0 ms to ten years, not after %v",
			n.After)
	case n.Interval != 0 && (n.Interval < minInterval || n.Interval > maxTimer):
		return refused(CodeInvalidTimer, "interval_ms", "",
			"a timer fires every second to every ten years, not every %v", n.Interval)
	}
	return nil
}

func (s *step) newTimer(n NewTimer) ledger.Timer {
	at := s.now.Add(n.After).Truncate(time.Millisecond)
	if n.Cron != "" {
		schedule, _ := crontab.Parse(n.Cron, n.Zone) // checkTimer saw that it comes
		at, _ = schedule.Next(s.now)
	}
	t := ledger.Timer{
		ID: responses.NewID(prefixTimer), AgentID: n.AgentID, Key: n.Key, Status: ledger.TimerActive,
		DurationMS: n.After.Milliseconds(),
		IntervalMS: n.Interval.Milliseconds(), Cron: n.Cron, Zone: n.Zone, Summary: n.Summary, NextFireAt: &at,
		CreatedAt: s.now, UpdatedAt: s.now,
	}
	if n.Key != "" {
		t.ID = derivedID(prefixTimer, n.AgentID, n.Key)
	}
	return t
}

// checkTimers refuses one more when the newest of an agent are all active.
func (s *step) checkTimers() error {
	list := newest(s, ledger.View.Timers, maxTimers)
	if len(list) < maxTimers ||
		slices.ContainsFunc(list, func(t ledger.Timer) bool { return t.Status != ledger.TimerActive }) {
		return nil
	}
	return refused(CodeInvalidTimer, "agent_id", "cancel some of them: holon timer list --agent "+s.state.AgentID,
		"agent %s has %d timers", s.state.AgentID, maxTimers)
}

// CancelTimer ends a timer. Its tick, if one is in the queue, stays there. One
// that has ended already is left as it is.
func (m *Scheduler) CancelTimer(ctx context.Context, id string) (ledger.Timer, error) {
	t, err := ledger.Read(ctx, m.store, func(v ledger.View) (ledger.Timer, error) { return v.Timer(id) })
	if err != nil {
		return t, err
	}
	err = m.step(ctx, t.AgentID, func(s *step) error {
		if t = read(s, ledger.View.Timer, id); t.Status == ledger.TimerActive {
			s.cancelTimer(&t)
		}
		return nil
	})
	return t, err
}

func (s *step) cancelTimer(t *ledger.Timer) {
	t.Status, t.NextFireAt, t.UpdatedAt = ledger.TimerCancelled, nil, s.now
	s.emitTimer(record.TimerCancelled, *t, ledger.Event{}, nil)
	s.update(t)
}
