// Package turnfiles reads, collects and completes the files of a turn.
//
// A container writes them, so nothing about them is believed: they are opened without following a link or waiting for a
// pipe, read with bounds, and what agentd cannot have written is errForged. Collect copies them to the host, where no
// container writes any more; only there they are completed. The package knows no session and no run.
package turnfiles

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"holon/internal/roots"
	"holon/responses"
)

// Files are the files of a turn, where they are: below the directory of its session while that exists, among
// the results of a run after.
type Files struct{ root *os.Root }

// Open opens the files of a turn below the directory of its session; fs.ErrNotExist when agentd never
// accepted the turn.
func Open(sessionDir, turnID string) (*Files, error) {
	output, err := OpenOutput(sessionDir)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	root, err := roots.OpenOwn(output, "turns/"+turnID)
	if err != nil {
		return nil, err
	}
	return &Files{root}, nil
}

// OpenCollected opens the files of a turn that were collected into dir.
func OpenCollected(dir string) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the turn's directory: %w", err)
	}
	return &Files{root}, nil
}

// OpenOutput opens what the container of a session writes, beneath the
// directory of that session, even when it closed it to its owner.
func OpenOutput(dir string) (*os.Root, error) {
	output := filepath.Join(dir, "output")
	if err := roots.Reopen(output); err != nil {
		return nil, err
	}
	return roots.Open(output)
}

// Close closes the directory; lines that are being read go on.
func (t *Files) Close() error { return t.root.Close() }

// FS shows the files for reading. Open files with Open.
func (t *Files) FS() fs.FS { return t.root.FS() }

// Open opens a regular file.
func (t *Files) Open(name string) (*os.File, error) {
	f, err := openReadable(t.root, name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", name), err, f.Close())
	}
	return f, nil
}

// OpenPlain is Open for a path of a client, in which no link is followed. One that is put there meanwhile leads to
// files of the turn alone.
func (t *Files) OpenPlain(name string) (*os.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	for i, c := range name + "/" {
		if c != '/' {
			continue
		}
		info, err := t.root.Lstat(name[:i])
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return nil, cmp.Or(err, error(&fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}))
		}
	}
	return t.Open(name)
}

// openReadable opens a file for reading without following a link or waiting for a
// pipe, even when a container of the same user closed it to its owner.
func openReadable(root *os.Root, name string) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := root.OpenFile(name, flags, 0)
	if errors.Is(err, fs.ErrPermission) && roots.ReopenIn(root, name) == nil {
		f, err = root.OpenFile(name, flags, 0)
	}
	return f, err
}

const logPoll = 200 * time.Millisecond

// Lines yields the whole lines of a file, without their ends. While more says so
// it waits for those to come. Lines of more than responses.MaxResponse bytes are
// left out. The error ends it; a file that is not there has no lines. A line is only
// valid until the next iteration.
func (t *Files) Lines(ctx context.Context, name string, more func() bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := t.Open(name)
		for ; errors.Is(err, fs.ErrNotExist) && more() && pause(ctx); f, err = t.Open(name) {
		}
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(nil, fmt.Errorf("open %s: %w", name, err))
			return
		}
		defer f.Close()
		lines := lineReader{in: bufio.NewReaderSize(f, 64<<10), most: responses.MaxResponse}
		for {
			last := !more() // asked before reading: what is written until then is read
			for {
				line, err := lines.next()
				if err == io.EOF {
					break
				}
				if err != nil {
					yield(nil, fmt.Errorf("read %s: %w", name, err))
					return
				}
				if !yield(line, nil) {
					return
				}
			}
			if last || !pause(ctx) {
				return
			}
		}
	}
}

func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(logPoll):
		return true
	}
}

// lineReader reads lines of a file that grows: half a line is kept for later.
type lineReader struct {
	in   *bufio.Reader
	most int   // bytes of a line, its end included; longer ones are left out
	left int   // out so far
	at   int64 // where the whole lines end that were read or left out

	part []byte // the beginning of a line
	size int    // of that line so far
	done bool   // part was given out
}

// next returns the next line, valid until the call after.
func (l *lineReader) next() ([]byte, error) {
	for {
		if l.done {
			l.part, l.size, l.done = l.part[:0], 0, false
		}
		piece, err := l.in.ReadSlice('\n')
		if l.size += len(piece); l.size <= l.most {
			l.part = append(l.part, piece...)
		} else {
			l.part = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l.at += int64(l.size)
		l.done = true
		if l.size <= l.most {
			return l.part[:l.size-1], nil
		}
		l.left++
	}
}
