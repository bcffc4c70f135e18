package load

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Patience bounds every wait. It says when something hangs, not how fast
// anything has to be.
const Patience = 90 * time.Second

// final is an error that waiting does not help.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Eventually waits until f finds nothing wrong, and returns what it found last.
func Eventually(ctx context.Context, limit time.Duration, f func() error) error {
	for end := time.Now().Add(limit); ; {
		err := f()
		if _, last := errors.AsType[final](err); err == nil || last || time.Now().After(end) {
			return err
		}
		if cause := Pause(ctx, 10*time.Millisecond); cause != nil {
			return errors.Join(cause, err)
		}
	}
}

// Pause waits for a time, or for the end of ctx, whose cause it returns.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

type failure struct{ err error }

// Guard runs a job and returns the error with which Check, Must or Failf ended it. A harness is a long list of steps,
// each of which may fail: so it reads as the list. They end the job of the goroutine that calls them, so a job that
// starts goroutines guards each.
func Guard(job func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.err
		default:
			err = fmt.Errorf("the harness panicked: %v\n%s", p, debug.Stack())
		}
	}()
	job()
	return nil
}

func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func Must[T any](value T, err error) T {
	Check(err)
	return value
}

func Failf(format string, args ...any) { Check(fmt.Errorf(format, args...)) }
