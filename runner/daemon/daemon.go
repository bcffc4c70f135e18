// Package daemon runs one `holon serve` of a HOLON_HOME in the background: start,
// stop, restart and status. It starts the same program with the same options, and
// finds it again by its control socket. StartDetached does the first for a run, which its record finds again.
//
// The invariants: a home has at most one daemon, even if several starts race; a
// socket, path or process of another owner is never taken over, nor a process whose
// number was reused; files that a crash left are repaired by the next start or stop,
// never by a status.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"holon/internal/unixsocket"
	"holon/state"
)

// The codes of errors, which are *state.Error.
const (
	codeForeign       state.Code = "daemon_socket_foreign" // something else is where the socket should be
	codeConfigDiffers state.Code = "daemon_config_differs" // it runs with other options
	codeNotStarted    state.Code = "daemon_not_started"
	codeNotAnswering  state.Code = "daemon_not_answering" // it lives and does not answer
	codeNotStopped    state.Code = "daemon_not_stopped"
	codeUnusable      state.Code = "daemon_files_unusable"
)

// Options describe the daemon of a home. Zero durations get defaults.
type Options struct {
	Home        string // HOLON_HOME, which exists
	Socket      string // its control socket; "": see SocketPath
	Fingerprint string // of the effective options, as `holon serve` with them reports it

	// What Start runs: `holon serve` with the same effective options.
	Program string
	Args    []string
	Env     []string

	StartWithin time.Duration // until it is ready; default 30 s
	StopWithin  time.Duration // for an end in good order, before it gets signals; default 30 s
	KillWithin  time.Duration // after each signal; default 5 s
	AskWithin   time.Duration // until an answer of the control surface; default 5 s
}

// Daemon is the background runtime of one home. It holds nothing open: every
// method looks anew.
type Daemon struct {
	opts  Options
	files files
}

// New returns the daemon of a home, which may or may not run.
func New(o Options) *Daemon {
	if o.Socket == "" {
		o.Socket = SocketPath(o.Home)
	}
	for d, otherwise := range map[*time.Duration]time.Duration{&o.StartWithin: 30 * time.Second,
		&o.StopWithin: 30 * time.Second, &o.KillWithin: 5 * time.Second, &o.AskWithin: 5 * time.Second} {
		if *d <= 0 {
			*d = otherwise
		}
	}
	return &Daemon{opts: o, files: filesIn(o.Home)}
}

// SocketPath is where the control socket of a home is.
func SocketPath(home string) string { return filepath.Join(home, "run", "holon.sock") }

// Started is what Start did.
type Started struct {
	Already bool // it ran, with the same options
	Status  Status
}

// Start makes the daemon run and returns when it is ready. When one runs with
// the same fingerprint it is left alone; with another it is refused with
// codeConfigDiffers. Why a start failed is kept for Status and Logs.
func (d *Daemon) Start(ctx context.Context) (Started, error) {
	unlock, err := d.lock(ctx)
	if err != nil {
		return Started{}, err
	}
	defer unlock()
	return d.start(ctx)
}

func (d *Daemon) start(ctx context.Context) (Started, error) {
	seen, err := d.look(ctx)
	if err != nil {
		return Started{}, err
	}
	if seen.answer == nil && seen.process != nil {
		// It was started by another command that did not wait for it.
		if seen, err = d.awaitOther(ctx, seen); err != nil {
			return Started{}, err
		}
	}
	if seen.answer != nil {
		if have := seen.answer.Runtime.ConfigFingerprint; have != d.opts.Fingerprint {
			return Started{}, &state.Error{Code: codeConfigDiffers, Param: "daemon",
				Message: fmt.Sprintf("it runs already, as process %d, with other options", seen.answer.Runtime.PID),
				Hint:    "stop it and start it with these: holon daemon restart"}
		}
		err := d.files.clearFailure()
		return Started{Already: true, Status: d.status(seen)}, err
	}
	if err := d.heal(seen); err != nil {
		return Started{}, err
	}
	if seen, err = d.launch(ctx); err != nil {
		return Started{}, d.failed(phaseStartup, err)
	}
	err = d.files.clearFailure()
	return Started{Status: d.status(seen)}, err
}

// How Stop ended the daemon.
const (
	NotRunning = "not_running"
	Graceful   = "graceful"   // it was asked and ended
	Terminated = "terminated" // by SIGTERM
	Killed     = "killed"     // by SIGKILL
)

// stopResult is what Stop did.
type stopResult struct {
	How string `json:"how"`
	PID int    `json:"pid,omitempty"`
}

// Stop ends the daemon: through its control plane, and with signals when it does not
// answer or does not end. When no daemon runs, it removes the files that one left.
func (d *Daemon) Stop(ctx context.Context) (stopResult, error) {
	unlock, err := d.lock(ctx)
	if err != nil {
		return stopResult{}, err
	}
	defer unlock()
	return d.stop(ctx)
}

func (d *Daemon) stop(ctx context.Context) (stopResult, error) {
	seen, err := d.look(ctx)
	if err != nil {
		return stopResult{}, err
	}
	done := stopResult{How: NotRunning}
	if seen.process != nil {
		done.PID = seen.process.PID
		if done.How, err = d.end(ctx, seen); err != nil {
			return done, d.failed(phaseShutdown, err)
		}
		if seen, err = d.look(ctx); err != nil {
			return done, err
		}
	}
	return done, errors.Join(d.heal(seen), d.files.clearFailure())
}

// Restart is Stop, if the daemon runs, and Start: another process with these options.
// The state of the runtime is in its ledger; a running turn is taken up again.
func (d *Daemon) Restart(ctx context.Context) (Started, error) {
	unlock, err := d.lock(ctx)
	if err != nil {
		return Started{}, err
	}
	defer unlock()
	if _, err := d.stop(ctx); err != nil {
		return Started{}, err
	}
	return d.start(ctx)
}

// lock makes this the only start or stop of the home. The holder of the lock ends
// within bounds.
func (d *Daemon) lock(ctx context.Context) (unlock func(), err error) {
	if len(d.opts.Socket) > unixsocket.MaxPath {
		return nil, &state.Error{Code: codeUnusable, Param: "--socket",
			Message: fmt.Sprintf("the path %.200q of the control socket has more than %d bytes", d.opts.Socket,
				unixsocket.MaxPath), Hint: "choose a shorter one, or a shorter HOLON_HOME"}
	}
	if err := os.MkdirAll(d.files.dir, 0o700); err != nil {
		return nil, d.files.unusable(err)
	}
	lock := flock.New(filepath.Join(d.files.dir, "daemon.lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if err != nil || !ok {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, d.files.unusable(err)
	}
	return func() { _ = lock.Close() }, nil // the kernel takes it back anyway
}

// failed keeps why a start or a stop failed.
func (d *Daemon) failed(phase string, err error) error {
	return errors.Join(err, d.files.writeFailure(phase, err))
}
