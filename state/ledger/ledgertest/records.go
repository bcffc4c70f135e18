package ledgertest

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/state/ledger"
)

// now is a time that no store can keep exactly: it is finer than a millisecond
// and not in UTC.
var now = time.Date(2026, 11, 22, 3, 4, 5, 678_912_345, time.FixedZone("", 3600))

// at is a time as a store returns it.
func at(d time.Duration) time.Time { return now.Add(d).UTC().Truncate(time.Millisecond) }

// fill sets every field of a record that is not set, so that a field which a
// store forgets is seen. Its times are too fine on purpose.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(now))
		return
	case turns.Time:
		v.Set(reflect.ValueOf(turns.At(now)))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":[1,"é"]}`)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // which no record has
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"k": "v"}))
	case reflect.String:
		if v.Len() == 0 {
			v.SetString("text <&> \x00\u2028")
		}
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() && v.IsZero() {
			v.SetInt(7)
		}
	}
}

// filled returns a record with no field empty.
func filled[T any](record T) T {
	fill(reflect.ValueOf(&record).Elem())
	return record
}

// settle is a record as a store returns it: its times are coarse.
func settled[T any](record T) T {
	settle(reflect.ValueOf(&record).Elem())
	return record
}

func settle(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(at(0)))
		return
	case turns.Time:
		v.Set(reflect.ValueOf(turns.At(at(0))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			settle(v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			settle(c.Elem())
			v.Set(c)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() || v.IsNil() {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			settle(c.Index(i))
		}
		v.Set(c)
	}
}

// same fails the test unless a store returned what was written.
func same[T any](t *testing.T, got, written T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%T: %v", written, err)
		return
	}
	if diff := cmp.Diff(settled(written), got); diff != "" {
		t.Errorf("%T came back changed (-written +read):\n%s", written, diff)
	}
}

// everything is one record of each noun, with no field empty.
type everything struct {
	agent   ledger.Agent
	lane    ledger.AgentState
	message ledger.Message
	entry   ledger.Entry
	attempt ledger.Attempt
	turn    ledger.Turn
	wait    ledger.Wait
	timer   ledger.Timer
	trigger ledger.Trigger
	brief   ledger.Brief
	said    ledger.TranscriptEntry
	note    ledger.Notification
	tool    ledger.ToolExecution
	event   ledger.Event
}

func newEverything() everything {
	e := everything{
		agent:   filled(ledger.Agent{ID: "a"}),
		lane:    filled(ledger.AgentState{AgentID: "a"}),
		message: filled(ledger.Message{ID: "m", AgentID: "a", Number: 9, Key: "key"}),
		entry: filled(ledger.Entry{MessageID: "m", AgentID: "a", Number: 9, Status: ledger.Queued,
			Priority: ledger.Next}),
		attempt: filled(ledger.Attempt{ID: "t", AgentID: "a", Status: ledger.AttemptOpen}),
		turn:    filled(ledger.Turn{ID: "turn", AgentID: "a"}),
		wait:    filled(ledger.Wait{ID: "w", AgentID: "a", Owner: ledger.OwnerAgent, Status: ledger.WaitActive}),
		timer:   filled(ledger.Timer{ID: "timer", AgentID: "a", Key: "key", Status: ledger.TimerActive}),
		trigger: filled(ledger.Trigger{ID: "trigger", AgentID: "a", TokenHash: "hash"}),
		brief:   filled(ledger.Brief{ID: "b", AgentID: "a"}),
		said:    filled(ledger.TranscriptEntry{ID: "s", AgentID: "a"}),
		note:    filled(ledger.Notification{ID: "n", AgentID: "a"}),
		tool:    filled(ledger.ToolExecution{ID: "x", TurnID: "turn", AgentID: "a"}),
		event:   filled(ledger.Event{AgentID: "a", Level: 2}),
	}
	e.agent.ArchivedAt = nil // or it were in no list
	e.lane.Revision, e.lane.EventSeq = 0, 0
	e.event.Seq, e.event.IDs[agentruntime.Step] = 1, "step"
	return e
}

func (e *everything) insert(tx ledger.Tx) error {
	l := e.lane
	err := errors.Join(
		tx.InsertAgent(e.agent, l), tx.InsertMessage(e.message, e.entry), tx.InsertAttempt(e.attempt),
		tx.InsertTurn(e.turn),
		tx.InsertWait(e.wait), tx.InsertTimer(e.timer), tx.InsertTrigger(e.trigger), tx.InsertBrief(e.brief),
		tx.InsertTranscript(e.said), tx.InsertNotification(e.note), tx.InsertToolExecution(e.tool), tx.Append(&l, e.event),
		tx.SaveAgentState(&l))
	e.lane = l
	return err
}

// check reads each record in every way there is.
func (e *everything) check(t *testing.T, v ledger.View) {
	t.Helper()
	one(t, e.agent)(v.Agent("a"))
	only(t, e.agent)(v.Agents())
	one(t, e.lane)(v.AgentState("a"))
	one(t, e.message)(v.Message("m"))
	found(t, e.message)(v.MessageByKey("a", "key"))
	only(t, e.message)(v.Messages("a", 5))
	one(t, e.entry)(v.Entry("m"))
	one(t, e.attempt)(v.Attempt("t"))
	bare := e.attempt
	bare.Frame = nil // is large, and left out where it is not asked for
	if e.attempt.Status == ledger.AttemptOpen {
		found(t, bare)(v.OpenAttempt("a"))
		only(t, bare)(v.OpenAttempts())
	}
	one(t, e.turn)(v.Turn("turn"))
	only(t, e.turn)(v.Turns("a", 5))
	one(t, e.wait)(v.Wait("w"))
	found(t, e.wait)(v.UnresolvedWait("a", ledger.OwnerAgent))
	only(t, e.wait)(v.UnresolvedWaits("a"))
	one(t, e.timer)(v.Timer("timer"))
	found(t, e.timer)(v.TimerByKey("a", "key"))
	only(t, e.timer)(v.Timers("a", 5))
	one(t, e.trigger)(v.Trigger("trigger"))
	only(t, e.trigger)(v.Triggers("a"))
	found(t, e.trigger)(v.TriggerByHash("hash"))
	only(t, e.brief)(v.Briefs("a", 5))
	only(t, e.said)(v.Transcript("a", 5))
	only(t, e.note)(v.Notifications("a", 5))
	only(t, e.tool)(v.ToolExecutions("a", 5))
	page, err := v.Events("a", ledger.EventQuery{})
	only(t, e.event)(page.Events, err)
}

func one[T any](t *testing.T, want T) func(T, error) {
	return func(got T, err error) { t.Helper(); same(t, got, want, err) }
}

func found[T any](t *testing.T, want T) func(T, bool, error) {
	return func(got T, ok bool, err error) {
		t.Helper()
		if !ok {
			t.Errorf("no %T was found", want)
			return
		}
		same(t, got, want, err)
	}
}

func only[T any](t *testing.T, want T) func([]T, error) {
	return func(got []T, err error) { t.Helper(); same(t, got, []T{want}, err) }
}

// testRecords writes every field of every noun, reads it in the same
// transaction, from outside and from a store that was opened again, then does so
// once more with all that can be replaced.
func testRecords(t *testing.T, open Reopener) {
	s := open(t)
	e := newEverything()
	inside := func(write func(tx ledger.Tx) error) {
		t.Helper()
		must(t, s.Update(t.Context(), func(tx ledger.Tx) error {
			if err := write(tx); err != nil {
				return err
			}
			e.check(t, tx)
			return nil
		}))
		look(t, s, func(v ledger.View) { e.check(t, v) })
		must(t, s.Close())
		s = open(t)
		look(t, s, func(v ledger.View) { e.check(t, v) })
	}
	inside(e.insert)
	e.replace()
	inside(func(tx ledger.Tx) error {
		l := e.lane
		err := errors.Join(tx.UpdateAgent(e.agent), tx.UpdateEntry(e.entry), tx.UpdateAttempt(e.attempt),
			tx.UpdateWait(e.wait),
			tx.UpdateTimer(e.timer), tx.UpdateTrigger(e.trigger), tx.SaveAgentState(&l))
		e.lane = l
		return err
	})
	must(t, s.Close())
}

// replace changes every field that may change.
func (e *everything) replace() {
	e.agent.Model, e.agent.UpdatedAt = "other/model", now.Add(1)
	e.lane = ledger.AgentState{AgentID: "a", Revision: e.lane.Revision, EventSeq: e.lane.EventSeq, UpdatedAt: now}
	e.entry = ledger.Entry{MessageID: "m", AgentID: "a", Number: 9, Priority: ledger.Background,
		Status: ledger.Processed, AttemptID: "t", CreatedAt: now, UpdatedAt: now}
	e.attempt.Status, e.attempt.Facts, e.attempt.BegunAt = ledger.AttemptSettled, 99, nil
	e.attempt.Frame, e.attempt.FrameDigest = json.RawMessage(`{"another":"frame"}`), "another"
	e.wait = ledger.Wait{ID: "w", AgentID: "a", Owner: ledger.OwnerAgent, Status: ledger.WaitTriggered,
		Wakes: []ledger.WakeSource{}, CreatedAt: now, UpdatedAt: now}
	e.timer = ledger.Timer{ID: "timer", AgentID: "a", Key: "key", Status: ledger.TimerCancelled, CreatedAt: now,
		UpdatedAt: now}
	e.trigger.Status, e.trigger.RevokedAt, e.trigger.DeliveryCount = ledger.TriggerRevoked, &now, 12
}
