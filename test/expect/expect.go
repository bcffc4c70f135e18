// Package expect says in one line what a test expects.
package expect

import (
	"errors"
	"strings"
)

// Test is what this package needs of *testing.T, *testing.B or *rapid.T.
type Test interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// NoError ends the test after an error.
func NoError(t Test, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal fails the test unless what was found is what was wanted; what names it.
func Equal[T comparable](t Test, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Contains fails the test unless the text that was found has the part that was wanted; what names it.
func Contains(t Test, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: got %q, want it to contain %q", what, got, part)
	}
}

// ErrorIs fails the test unless the error that was found is, or wraps, the one that was wanted; what names it.
func ErrorIs(t Test, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
