package process

import (
	"fmt"
	"syscall"
	"time"
)

// Defaults of [Command].
const (
	defaultGrace     = 5 * time.Second
	drain            = 500 * time.Millisecond // for output still in the pipes after the end
	defaultKeepBytes = 32 << 10
	defaultLogBytes  = 64 << 20
	terminalRows     = 24
	terminalCols     = 80
)

// Command describes one command.
type Command struct {
	Argv []string // program and arguments; a bare name is looked up in Env's PATH
	Dir  string   // absolute working directory; must exist
	Env  []string // the complete environment; see Environ. Of equal names the last counts

	Input bool // there is an input, for [Process.Write], and not /dev/null

	// TTY gives the command a terminal as its input, output and controlling terminal. Its output is one stream, in
	// Stdout, as a terminal would receive it. Its input stays open.
	TTY bool

	// Piped hands the standard output to the caller as [Process.Output] instead of capturing it. The command blocks
	// while the caller does not read. It has no meaning with TTY.
	Piped bool

	Timeout time.Duration // 0 means none
	Grace   time.Duration // between SIGTERM and SIGKILL; 0 means defaultGrace

	// KeepBytes is how much of the beginning, and how much of the end, of each stream stays in memory; 0 means
	// defaultKeepBytes.
	KeepBytes int
	// StdoutPath and StderrPath are files that receive the raw bytes, up to LogBytes each (0 means defaultLogBytes)
	// and within Budget if there is one. A file is created with its first byte, with its directory if that is
	// missing, and must not exist before. Empty means no file.
	StdoutPath, StderrPath string
	LogBytes               int64
	Budget                 *Budget
}

// Result tells how a command ended.
type Result struct {
	ExitCode int            // as a shell reports it: 128+n after signal n
	Signal   syscall.Signal // the signal that ended the leader, or 0
	// At most one of these is set. It says why the supervisor ended the command.
	TimedOut bool // the deadline passed
	Canceled bool // the supervisor was closed
	Stopped  bool // Stop or Kill was called
	Duration time.Duration
	// Ended counts processes that the command had left running and that were ended.
	Ended int
	// Survivors counts processes that SIGKILL could not end in time.
	Survivors      int
	Stdout, Stderr Capture
}

// StartError says why a command could not be started. Nothing of the command is left.
type StartError struct {
	Op   string // what was tried: "find", "open", "record", "start"
	Path string // the program, file or directory concerned
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
