package transfer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// What Client asks of Serve. A request is a line of JSON; lines with names and tars follow it, each with an end of its
// own. Names are bytes, as those of files are.
const (
	opList  = "list"  // answer: lines of entries, of those that differ from the list before if it is not whole
	opGet   = "get"   // then lines of names; answer: a tar
	opPut   = "put"   // then lines of names to remove, and a tar; answer: lines of entries, of what was made
	opUsage = "usage" // then lines of directories; answer: lines of those that are closed, and the size in the end
)

// Service is the name by which a bridge has Serve.
const Service = "files"

type request struct {
	Op     string   `json:"op"`
	Dir    string   `json:"dir,omitempty"` // absolute
	Except [][]byte `json:"except,omitempty"`
	Limit  int64    `json:"limit,omitempty"`
	User   int      `json:"user,omitempty"`   // list: whose processes make it not quiet
	Owners bool     `json:"owners,omitempty"` // put: give files to the owners of the tar
}

// line is a name, an entry, or the end of lines.
type line struct {
	Name    []byte      `json:"n,omitempty"`
	Mode    fs.FileMode `json:"m,omitempty"`
	Size    int64       `json:"s,omitempty"`
	ModTime int64       `json:"t,omitempty"`
	Changed int64       `json:"c,omitempty"`
	Inode   uint64      `json:"i,omitempty"`
	Link    []byte      `json:"l,omitempty"`

	Gone  bool   `json:"gone,omitempty"` // list: the name was in the list before
	End   bool   `json:"end,omitempty"`
	Whole bool   `json:"whole,omitempty"` // list: of all entries
	Quiet bool   `json:"quiet,omitempty"`
	Error string `json:"error,omitempty"`
}

func lineOf(name string, e Entry) line {
	return line{Name: []byte(name), Mode: e.Mode, Size: e.Size, ModTime: e.ModTime, Changed: e.Changed, Inode: e.Inode,
		Link: []byte(e.Link)}
}

func (l line) entry() Entry {
	return Entry{Mode: l.Mode, Size: l.Size, ModTime: l.ModTime, Changed: l.Changed, Inode: l.Inode, Link: string(l.Link)}
}

// maxLine bounds a line: a name and a target are at most 4 KiB each, and a request names few paths.
const maxLine = 64 << 10

// BrokenError says that a connection ended, or carried what it should not.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string {
	return "the connection to the container broke: " + e.Err.Error()
}

func (e *BrokenError) Unwrap() error { return e.Err }

// stream is a stream whose errors are BrokenErrors, but for its end. What it carries starts watch, if there is one,
// anew.
type stream struct {
	io.ReadWriter
	watch *time.Timer
}

func (s stream) Read(p []byte) (int, error) {
	n, err := s.ReadWriter.Read(p)
	s.moved()
	if err != nil && !errors.Is(err, io.EOF) {
		err = &BrokenError{err}
	}
	return n, err
}

func (s stream) Write(p []byte) (int, error) {
	n, err := s.ReadWriter.Write(p)
	s.moved()
	if err != nil {
		err = &BrokenError{err}
	}
	return n, err
}

func (s stream) moved() {
	if s.watch != nil && s.watch.Stop() { // it has neither ended the connection nor been stopped
		s.watch.Reset(stallTime)
	}
}

// conn is a connection between Client and Serve.
type conn struct {
	in  *bufio.Reader
	out *bufio.Writer
}

func newConn(rw io.ReadWriter, watch *time.Timer) conn {
	s := stream{rw, watch}
	return conn{bufio.NewReaderSize(s, maxLine), bufio.NewWriterSize(s, maxLine)}
}

func (c conn) read(to any) error {
	data, err := c.in.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = &BrokenError{err}
	}
	return err
}

// readAll reads lines to their end, which is returned.
func (c conn) readAll(each func(line) error) (end line, err error) {
	for {
		var l line
		if err := c.read(&l); err != nil {
			return l, err
		}
		if l.End && l.Error != "" {
			return l, fmt.Errorf("in the container: %.500s", l.Error)
		}
		if l.End {
			return l, nil
		}
		if err := each(l); err != nil {
			return l, err
		}
	}
}

func (c conn) write(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.out.Write(append(data, '\n'))
	return err
}

// writeNames writes names and their end.
func (c conn) writeNames(names []string, end line) error {
	for _, name := range names {
		if err := c.write(line{Name: []byte(name)}); err != nil {
			return err
		}
	}
	end.End = true
	return c.write(end)
}
