package httpserver

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// maxToken is how long a token may be, in bytes.
const maxToken = 4096

// TokenError says why a token, or the file that holds it, cannot be used. The token is
// not in it.
type TokenError struct {
	What, Remedy string
	Err          error // of the file system
}

// Error says what is wrong.
func (e *TokenError) Error() string { return e.What }

// Unwrap returns the cause, which may be nil.
func (e *TokenError) Unwrap() error { return e.Err }

// ReadToken reads a bearer token of at least so many bytes out of a file that only its
// owner may use. The error is a *TokenError; one that wraps fs.ErrNotExist says that
// there is no file.
func ReadToken(path string, least int) (string, error) {
	data, err := ReadPrivate(path, maxToken+2, "name a file that holds the token")
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	return token, CheckToken(token, least)
}

// ReadPrivate reads at most limit bytes of a file with tokens that only its owner may use. The
// remedy is for a path that names no such file. The error is a *TokenError.
func ReadPrivate(path string, limit int64, remedy string) ([]byte, error) {
	unreadable := func(err error) error { return &TokenError{"cannot be read", remedy, err} }
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer must not block
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, &TokenError{"is not a regular file", remedy, err}
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, &TokenError{fmt.Sprintf("may be used by others (mode %04o)", info.Mode().Perm()),
			"chmod 600 it and, if they could read it, make a new one", nil}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// CheckToken reports why a token cannot be used, as a *TokenError.
func CheckToken(token string, least int) error {
	if len(token) < least || len(token) > maxToken {
		return &TokenError{fmt.Sprintf("has %d characters, not %d to %d", len(token), least, maxToken),
			"make one with: openssl rand -hex 32", nil}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &TokenError{"has a space, or a character that no header can carry", "use letters and digits", nil}
	}
	return nil
}
