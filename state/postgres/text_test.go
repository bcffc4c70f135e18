package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// Every string comes back as it was, as one that PostgreSQL takes.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "plain", "ä\u2028\ufffd", "\x00", "a\x00b", "\x01", "\x0100", "\xff",
		"\x01\xff\x00", "\xc3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		stored := escape(text)
		if strings.Contains(stored, "\x00") || !utf8.ValidString(stored) {
			t.Errorf("%q is stored as %q", text, stored)
		}
		expect.Equal(t, "read", unescape(stored), text)
	})
}

func TestURLs(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	for _, bad := range []string{"", "ledger.db", "mysql://u:s3cret@h/d", "postgres://u:s3cret@h:port/d",
		"postgres://u:s3cret@h/d?sslmode=odd", "host=h password=s3cret"} {
		_, err := parse(bad)
		wantCode(t, err, ledger.CodeLedgerURL)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error has the password: %v", bad, err)
		}
	}
	good := "postgresql://u:s3cret@h:1/d?sslmode=disable&password=s3cret"
	expect.Equal(t, "password", Password(good), secret)
}

// An error of the connection is one of the ledger, and the end of a caller's patience is the caller's.
func TestKnown(t *testing.T) {
	t.Parallel()
	code := func(err error) (code state.Code) {
		if e := (dialect{}).Known(fmt.Errorf("wait: %w", err)); e != nil {
			code = e.Code
		}
		return code
	}
	for err, want := range map[error]state.Code{
		context.DeadlineExceeded: "", context.Canceled: "", errors.New("other"): "",
		io.ErrUnexpectedEOF: ledger.CodeLedgerAway, driver.ErrBadConn: ledger.CodeLedgerAway,
		&net.OpError{Op: "read", Err: errors.New("reset")}: ledger.CodeLedgerAway,
		&pgconn.PgError{Code: "53100"}:                     ledger.CodeLedgerFull, &pgconn.PgError{Code: "57P01"}: ledger.CodeLedgerAway,
		&pgconn.PgError{Code: "25006"}: ledger.CodeLedgerAway, &pgconn.PgError{Code: "XX001"}: ledger.CodeUnreadable,
		&pgconn.PgError{Code: "42601"}: "", &pgconn.PgError{}: "",
	} {
		expect.Equal(t, err.Error(), code(err), want)
	}
}
