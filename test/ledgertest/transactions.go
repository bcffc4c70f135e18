package ledgertest

import (
	"errors"
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
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
		expect.NoError(t, err)
		expect.Equal(t, "newest event", l.EventSeq, 0)
		expect.Equal(t, "revision", l.Revision, 0)
	})
	// A row that could not be written is the function's business.
	write(t, s, func(tx ledger.Tx) error {
		expect.NoError(t, tx.Insert(m, e))
		wantCode(t, tx.Insert(m, e), ledger.CodeConflict)
		return appendEvents("a", told(1, 4, 0)...)(tx)
	})
	write(t, s, func(tx ledger.Tx) error { // in the writer's memory, if it has one
		l, err := tx.AgentState("a")
		expect.Equal(t, "newest event", l.EventSeq, 1)
		l.Chain = "not saved"
		return err
	})
	write(t, s, func(tx ledger.Tx) error {
		l, err := tx.AgentState("a")
		expect.Equal(t, "chain", l.Chain, "")
		return err
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
			expect.NoError(t, tx.Insert(m, e))
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
