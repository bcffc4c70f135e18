package load

import (
	"fmt"
	"runtime/debug"
)

// failure is what ends a job.
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

// Check ends the job if err is not nil.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns a value, or ends the job if err is not nil.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Failf ends the job.
func Failf(format string, args ...any) { Check(fmt.Errorf(format, args...)) }
