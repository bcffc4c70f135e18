package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/redact"
)

// Capture is what remains of one output stream: its beginning, its end and the
// numbers in between. When Total equals len(Head)+len(Tail), nothing is missing
// and Tail follows Head directly.
type Capture struct {
	Head, Tail []byte
	Total      int64 // bytes the command wrote, counted without its secrets
	Lines      int64 // newlines among them
	Logged     int64 // bytes in the log file
	LogErr     error // why the log file ends early, if not for a limit
	OverBudget bool  // the log file ends early because Command.Budget was used up
	Open       bool  // the stream has not ended: what follows may complete the last character
	Cut        bool  // the stream was still open, or full, when the drain bound passed
}

// Omitted is the number of bytes between Head and Tail.
func (c Capture) Omitted() int64 { return c.Total - int64(len(c.Head)) - int64(len(c.Tail)) }

// capture keeps the first and the last keep bytes that are written to it and copies the first limit bytes, within the
// budget, to a file. It never fails and blocks on the disk only: a command must not depend on a reader of its output.
type capture struct {
	scrub *redact.Stream // takes secrets out before anything is kept; nil for none

	keep  int
	head  []byte
	tail  []byte // ring once it has grown to keep
	next  int    // where the ring continues
	total int64
	lines int64

	path   string
	file   *os.File
	limit  int64
	budget *Budget // nil is without end
	broke  bool    // the budget ended before the limit
	logged int64
	logErr error
}

func (c *capture) Write(b []byte) (int, error) {
	c.take(c.scrub.Next(b))
	return len(b), nil
}

// take keeps what has no secrets.
func (c *capture) take(b []byte) {
	c.total += int64(len(b))
	c.lines += int64(bytes.Count(b, []byte{'\n'}))
	c.logBytes(b)
	if free := c.keep - len(c.head); free > 0 {
		take := min(free, len(b))
		c.head = append(c.head, b[:take]...)
		b = b[take:]
	}
	c.push(b)
}

// push appends to the ring. Of a long b only the end matters.
func (c *capture) push(b []byte) {
	if len(b) > c.keep {
		b = b[len(b)-c.keep:]
	}
	if free := c.keep - len(c.tail); free > 0 {
		take := min(free, len(b))
		c.tail = append(c.tail, b[:take]...)
		b = b[take:]
	}
	for len(b) > 0 {
		n := copy(c.tail[c.next:], b)
		c.next = (c.next + n) % c.keep
		b = b[n:]
	}
}

func (c *capture) logBytes(b []byte) {
	if c.path == "" || c.logErr != nil || c.broke || c.logged >= c.limit || len(b) == 0 {
		return
	}
	b = b[:min(int64(len(b)), c.limit-c.logged)]
	if c.budget != nil {
		granted := c.budget.Take(int64(len(b)))
		c.broke = granted < int64(len(b))
		if b = b[:granted]; granted == 0 {
			return // and leave no empty file
		}
	}
	before := c.logged
	c.appendLog(b)
	if unused := int64(len(b)) - (c.logged - before); unused > 0 && c.budget != nil {
		c.budget.Give(unused)
	}
}

func (c *capture) appendLog(b []byte) {
	if c.file == nil {
		if c.file, c.logErr = createLog(c.path); c.logErr != nil {
			return
		}
	}
	n, err := c.file.Write(b)
	c.logged += int64(n)
	if err != nil {
		c.logErr = fmt.Errorf("write log: %w", err)
	}
}

// createLog creates the file at path, and its directory where that is missing:
// a command that prints nothing is to cost no file system anything.
func createLog(path string) (*os.File, error) {
	const create = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, create, 0o664)
	if errors.Is(err, fs.ErrNotExist) {
		// the other stream may have made it
		if err := os.Mkdir(filepath.Dir(path), 0o775); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make the directory of a log: %w", err)
		}
		f, err = os.OpenFile(path, create, 0o664)
	}
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	return f, nil
}

// result copies what is held.
func (c *capture) result() Capture {
	tail := make([]byte, 0, len(c.tail))
	tail = append(append(tail, c.tail[c.next:]...), c.tail[:c.next]...)
	return Capture{
		Head: bytes.Clone(c.head), Tail: tail, Total: c.total, Lines: c.lines,
		Logged: c.logged, LogErr: c.logErr, OverBudget: c.broke,
	}
}

// close takes what is held back, since no more comes, and ends the log file.
func (c *capture) close() {
	c.take(c.scrub.Rest())
	if c.file == nil {
		return
	}
	if err := c.file.Close(); err != nil && c.logErr == nil {
		c.logErr = fmt.Errorf("close log: %w", err)
	}
	c.file = nil
}
