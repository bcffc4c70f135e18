package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// inputWait bounds how long Write waits for a command that does not read.
const inputWait = 5 * time.Second

// endOfInput is the character that ends a terminal's input (VEOF).
const endOfInput = 0x04

var (
	// errInputClosed is returned for a command that never had an input that can
	// be written to, closed it, had it closed, or has ended.
	errInputClosed = errors.New("the command's input is closed")
	// errNotReading is returned when the command's input is full and the
	// command does not read from it.
	errNotReading = errors.New("the command does not read its input")
)

// Write sends b to the command's input, after what earlier calls sent. It
// returns when the kernel has taken all of it, and otherwise how much of it: with
// errNotReading after some seconds without progress, with errInputClosed, or
// with the context's error.
func (p *Process) Write(ctx context.Context, b []byte) (int, error) {
	if p.in == nil {
		return 0, errInputClosed
	}
	return p.in.write(ctx, b, inputWait)
}

// CloseInput ends the command's input after what was written. On a terminal it
// types ^D, which ends the input of the program that reads at that moment, if
// the line is empty, and leaves the terminal open.
func (p *Process) CloseInput() error {
	switch {
	case p.in == nil:
		return errInputClosed
	case p.in.tty:
		_, err := p.in.write(context.Background(), []byte{endOfInput}, inputWait)
		return err
	}
	return p.in.close()
}

// input is our end of a command's standard input.
type input struct {
	w   *os.File
	tty bool // w is a terminal, and closed by the stream that reads from it

	turn chan struct{} // holds one token, taken by the writer

	mu     sync.Mutex
	closed bool
}

func newInput(w *os.File, tty bool) *input {
	in := &input{w: w, tty: tty, turn: make(chan struct{}, 1)}
	in.turn <- struct{}{}
	return in
}

func (in *input) write(ctx context.Context, b []byte, patience time.Duration) (n int, err error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-in.turn:
		defer func() { in.turn <- struct{}{} }()
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-timeout.C:
		return 0, errNotReading
	}
	for n < len(b) {
		var more int
		more, err = in.writeSome(ctx, b[n:], patience)
		n += more
		// A slow reader is a reader: only silence for the whole time is none.
		if err != nil && (more == 0 || !errors.Is(err, errNotReading)) {
			return n, err
		}
	}
	return n, nil
}

// writeSome writes until the deadline that patience sets.
func (in *input) writeSome(ctx context.Context, b []byte, patience time.Duration) (int, error) {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return 0, errInputClosed
	}
	err := in.w.SetWriteDeadline(time.Now().Add(patience))
	in.mu.Unlock()
	if err != nil {
		return 0, in.failure(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = in.w.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	n, err := in.w.Write(b)
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return n, ctx.Err()
	}
	return n, in.failure(err)
}

// failure puts an error of the kernel in our words.
func (in *input) failure(err error) error {
	in.mu.Lock()
	closed := in.closed
	in.mu.Unlock()
	switch {
	case closed, errors.Is(err, os.ErrClosed), errors.Is(err, unix.EPIPE), errors.Is(err, unix.EIO):
		return errInputClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errNotReading
	}
	return fmt.Errorf("write the command's input: %w", err)
}

// close ends the input without waiting: a write in progress fails.
func (in *input) close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return errInputClosed
	}
	in.closed = true
	_ = in.w.SetWriteDeadline(time.Unix(1, 0))
	if in.tty {
		return nil
	}
	return in.w.Close()
}
