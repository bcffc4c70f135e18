package ledgertest

import (
	"errors"
	"fmt"
	"testing"

	"holon/state/ledger"
)

var errOwn = errors.New("the caller's own")

func testAtomic(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	m, e := message("a", 1, ledger.Normal)
	err := s.Update(t.Context(), func(tx ledger.Tx) error {
		if err := errors.Join(tx.Insert(m, e), appendEvents("a", told(2, 4, 0)...)(tx)); err != nil {
			return err
		}
		return errOwn
	})
	if err != errOwn {
		t.Errorf("error %v, want the function's as it is", err)
	}
	look(t, s, func(v ledger.View) {
		wantCode(t, second(v.Message(m.ID)), ledger.CodeNotFound)
		l, err := v.AgentState("a")
		must(t, err)
		equal(t, "newest event", l.EventSeq, 0)
		equal(t, "revision", l.Revision, 0)
	})
	// A row that could not be written is the function's business.
	write(t, s, func(tx ledger.Tx) error {
		must(t, tx.Insert(m, e))
		wantCode(t, tx.Insert(m, e), ledger.CodeConflict)
		return appendEvents("a", told(1, 4, 0)...)(tx)
	})
	write(t, s, func(tx ledger.Tx) error { // in the writer's memory, if it has one
		l, err := tx.AgentState("a")
		equal(t, "newest event", l.EventSeq, 1)
		l.Chain = "not saved"
		return err
	})
	write(t, s, func(tx ledger.Tx) error {
		l, err := tx.AgentState("a")
		equal(t, "chain", l.Chain, "")
		return err
	})
}

// testAlone lets updates that fail and updates that don't wait together.
func testAlone(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	crowd(t, 16, func(i int) error {
		for n := range int64(20) {
			number := int64(i)*100 + n + 1
			err := s.Update(t.Context(), func(tx ledger.Tx) error {
				m, e := message("a", number, ledger.Normal)
				err := errors.Join(tx.Insert(m, e), appendEvents("a", told(1, 4, 0)...)(tx))
				if err == nil && number%3 == 0 {
					err = errOwn
				}
				return err
			})
			if failed := err != nil; failed != (number%3 == 0) || failed && err != errOwn {
				return fmt.Errorf("message %d: %w", number, err)
			}
		}
		return nil
	})
	look(t, s, func(v ledger.View) {
		all, err := v.Messages("a", 1000)
		must(t, err)
		for _, m := range all {
			if m.Number%3 == 0 {
				t.Errorf("message %d was taken back and is there", m.Number)
			}
		}
		l, err := v.AgentState("a")
		must(t, err)
		equal(t, "messages", int64(len(all)), l.EventSeq)
		equal(t, "steps", l.Revision, l.EventSeq)
	})
}

func testPanic(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	m, e := message("a", 1, ledger.Normal)
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = s.Update(t.Context(), func(tx ledger.Tx) error {
			must(t, tx.Insert(m, e))
			panic("boom")
		})
	}()
	write(t, s, func(tx ledger.Tx) error { return tx.Insert(m, e) })
	var kept ledger.Tx
	write(t, s, func(tx ledger.Tx) error { kept = tx; return nil })
	if _, err := kept.AgentState("a"); err == nil {
		t.Error("a Tx can be used after its end")
	}
}
