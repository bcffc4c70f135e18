package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"holon/state"
	"holon/state/ledger"
)

// failed is err with what was being done, and with the ledger's code if it has
// one of its own.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*state.Error](err); ok {
		return err
	}
	switch primary(err) {
	case code.SQLITE_FULL:
		return &state.Error{Code: ledger.CodeLedgerFull, Message: "the ledger's disk is full; nothing was written",
			Hint: "make room on the disk that holds the ledger", Err: fmt.Errorf("%s: %w", doing, err)}
	case code.SQLITE_CORRUPT, code.SQLITE_NOTADB:
		return unreadable(fmt.Errorf("%s: %w", doing, err))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// unreadable is about a ledger, or a row of it, that is not what was written.
func unreadable(err error) error {
	return &state.Error{
		Code: ledger.CodeUnreadable, Message: "the ledger is damaged", Err: err,
		Hint: "restore the newest backup; keep the damaged file, most of it can be read",
	}
}

// primary is the driver's code without its details; 0: no error of the driver.
func primary(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// ends reports whether err may have ended the transaction: SQLite rolls back by
// itself after some errors, and after those nothing more may be written in it.
func ends(err error) bool {
	switch primary(err) {
	case 0, code.SQLITE_CONSTRAINT, code.SQLITE_TOOBIG, code.SQLITE_MISMATCH, code.SQLITE_RANGE, code.SQLITE_ERROR:
		return false
	}
	return true
}

// changed is the error of writing a row, if any.
func changed(doing, noun string, err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return failed(doing+" "+noun, err)
	}
	switch e.Code() {
	case code.SQLITE_CONSTRAINT_UNIQUE, code.SQLITE_CONSTRAINT_PRIMARYKEY:
		return &state.Error{Code: ledger.CodeConflict, Message: "the " + noun + ", or one that it excludes, exists",
			Param: noun, Err: err}
	case code.SQLITE_CONSTRAINT_FOREIGNKEY:
		return &state.Error{Code: ledger.CodeNotFound, Param: "agent", Err: err,
			Message: "the " + noun + " belongs to an agent, or a record, that does not exist"}
	}
	return failed(doing+" "+noun, err)
}

func notFound(noun string, key any) error {
	return &state.Error{Code: ledger.CodeNotFound, Message: fmt.Sprintf("there is no %s %q", noun, key), Param: noun}
}
