package privilege

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// maxIdle is how many threads wait for work. They are kept because commands may
// leave no room for a new one.
const maxIdle = 8

// thread is a thread of this process whose file accesses are those of commands.
type thread struct{ work chan func() }

// Do runs f with the commands' rights to files. What f opens stays open for
// everybody. It must not leave work that needs these rights to other goroutines.
func (u *Users) Do(f func()) {
	if u == nil {
		f()
		return
	}
	var t *thread
	select {
	case t = <-u.idle:
	default:
		var err error
		if t, err = u.startThread(); err != nil {
			panic(err) // the one that Start made had them
		}
	}
	var panicked any
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}
	<-done
	select {
	case u.idle <- t:
	default:
		close(t.work)
	}
	if panicked != nil {
		panic(panicked)
	}
}

// startThread makes a thread with the commands' rights. It ends with its goroutine,
// which never lets other goroutines on it.
func (u *Users) startThread() (*thread, error) {
	t := &thread{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := u.become()
		ready <- err
		if err != nil {
			return
		}
		for f := range t.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("take the rights of commands: %w", err)
	}
	return t, nil
}

// become gives the calling thread the rights of commands to files. The thread stays
// agentd's to the kernel in every other respect: commands cannot signal it.
func (u *Users) become() error {
	for _, id := range []struct {
		set  func(int) (int, error)
		want int
	}{{unix.SetfsgidRetGid, u.command.GID}, {unix.SetfsuidRetUid, u.command.UID}} {
		if _, err := id.set(id.want); err != nil {
			return err
		}
		if now, err := id.set(-1); err != nil || now != id.want { // the call itself reports no refusal
			return fmt.Errorf("the system keeps id %d instead of %d", now, id.want)
		}
	}
	return nil
}
