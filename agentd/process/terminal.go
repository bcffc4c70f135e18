package process

import (
	"errors"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// errNoTerminal is returned by Resize for a command without a terminal.
var errNoTerminal = errors.New("the command has no terminal")

// connectTerminal opens a terminal. Our end of it is both the command's input and its output.
func (p *Process) connectTerminal(sink capture) (f files, err error) {
	file, tty, err := pty.Open()
	if err != nil {
		return f, &StartError{"open", "terminal", err}
	}
	defer file.Close()
	defer tty.Close()
	master, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return f, &StartError{"open", "terminal", err}
	}
	end := pollable(master, "terminal")
	p.in, p.out = newInput(end, true), newStream(end, sink)
	if err := setSize(end, terminalRows, terminalCols); err != nil {
		return f, &StartError{"open", "terminal", err}
	}
	slave, err := unix.FcntlInt(tty.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return f, &StartError{"open", "terminal", err}
	}
	f.child = [3]uintptr{uintptr(slave), uintptr(slave), uintptr(slave)}
	f.owned = []int{slave}
	// The command must find a terminal that blocks, as terminals do.
	if err := unix.SetNonblock(slave, false); err != nil {
		return f, &StartError{"open", "terminal", err}
	}
	return f, nil
}

// Resize sets the size of the command's terminal. The programs on it get SIGWINCH.
func (p *Process) Resize(rows, cols uint16) error {
	if p.in == nil || !p.in.tty {
		return errNoTerminal
	}
	if rows == 0 || cols == 0 {
		return errors.New("a terminal has at least one row and one column")
	}
	if err := setSize(p.in.w, rows, cols); err != nil {
		return p.in.failure(err)
	}
	return nil
}

// setSize leaves f in non-blocking mode, as File.Fd would not.
func setSize(f *os.File, rows, cols uint16) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	return errors.Join(err, failed)
}
