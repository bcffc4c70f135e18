package sqlstore

import (
	"errors"
	"fmt"

	"holon/state"
	"holon/state/ledger"
)

// Failed is err with what was being done, and with the ledger's code if the dialect knows one.
func Failed(d Dialect, doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*state.Error](err); ok {
		return err
	}
	err = fmt.Errorf("%s: %w", doing, err)
	if known := d.Known(err); known != nil {
		return known
	}
	return err
}

func (t *tx) failed(doing string, err error) error { return Failed(t.dialect, doing, err) }

// Unreadable is about a ledger, or a row of it, that is not what was written.
func Unreadable(err error) *state.Error {
	return &state.Error{
		Code: ledger.CodeUnreadable, Message: "the ledger is damaged", Err: err,
		Hint: "restore the newest backup; keep the damaged ledger, most of it can be read",
	}
}

// refused is the error of writing a row, if any.
func (t *tx) refused(doing, noun string, err error) error {
	if err == nil {
		return nil
	}
	switch t.dialect.Refusal(err) {
	case Duplicate:
		return &state.Error{Code: ledger.CodeConflict, Param: noun, Err: err,
			Message: "the " + noun + ", or one that it excludes, exists"}
	case Orphan:
		return &state.Error{Code: ledger.CodeNotFound, Param: "agent", Err: err,
			Message: "the " + noun + " belongs to an agent, or a record, that does not exist"}
	}
	return t.failed(doing+" "+noun, err)
}

func notFound(noun string, key any) error {
	return &state.Error{Code: ledger.CodeNotFound, Message: fmt.Sprintf("there is no %s %q", noun, key), Param: noun}
}
