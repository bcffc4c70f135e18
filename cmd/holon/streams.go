package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"holon/internal/pattern"
	"holon/internal/redact"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/state"
)

// Streams are the standard streams of a command and their properties.
// Results go to Out, everything else to Err.
//
// Every byte that holon prints passes Out and Err, which take out what Secrets
// has: the variables of this process that are secret by name, and what commands
// add to it.
type Streams struct {
	Secrets  *redact.Set
	In       io.Reader
	Out, Err io.Writer
	InTTY    bool  // In is a terminal: a person can be asked
	OutTTY   bool  // Out is a terminal: tables are drawn, not written for programs
	ErrTTY   bool  // Err is a terminal that can be redrawn
	NoColor  bool  // styles are not wanted
	CI       bool  // a CI system reads along, and takes some lines for commands
	NoHead   *bool // a terminal does not get the names of columns either
	// Width is that of the terminal of Out, ErrWidth that of Err.
	Width, ErrWidth func() int
	// Failed is the first error of writing to Out, of which a command need not take notice.
	Failed *error
	// Watching is for a command that only watches what goes on without it.
	Watching *watching
}

func systemStreams() Streams {
	fd := int(os.Stderr.Fd())
	secrets := &redact.Set{}
	secrets.AddEnviron(os.Environ(), nil)
	failed := new(error)
	dumb := slices.Contains([]string{"", "dumb"}, os.Getenv("TERM"))
	return Streams{
		Failed:   failed,
		Watching: &watching{out: os.Stdout},
		Secrets:  secrets, In: os.Stdin, NoHead: new(bool),
		Out: secrets.Writer(pipe{os.Stdout, failed}, turns.Structure), Err: secrets.Writer(os.Stderr, nil),
		InTTY:   term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY:  term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY:  term.IsTerminal(fd) && !dumb,
		NoColor: os.Getenv("NO_COLOR") != "" || dumb,
		CI: os.Getenv("CI") != "" || os.Getenv("GITHUB_ACTIONS") != "" || os.Getenv("TF_BUILD") != "" ||
			os.Getenv("TEAMCITY_VERSION") != "",
		Width: widthOf(int(os.Stdout.Fd())), ErrWidth: widthOf(fd),
	}
}

// widthOf measures a terminal whenever it is asked, since a person may change its size.
func widthOf(fd int) func() int {
	return func() int {
		if w, _, err := term.GetSize(fd); err == nil && w >= minWidth {
			return w
		}
		return 80
	}
}

// ofErr are the streams with the width of Err as their width.
func (s Streams) ofErr() Streams {
	s.Width = s.ErrWidth
	return s
}

const minWidth = 10

// pipe is standard output, whose reader may leave.
type pipe struct {
	*os.File
	failed *error // the first one
}

// errReaderGone ends a command whose output no one reads any more.
var errReaderGone = errors.New("the reader of the output is gone")

func (p pipe) Write(data []byte) (int, error) {
	n, err := p.File.Write(data)
	switch no, failed := errors.AsType[syscall.Errno](err); {
	case errors.Is(err, syscall.EPIPE):
		err = errReaderGone
	case failed: // not as an error of a file of ours, which would have another remedy
		err = &state.Error{Code: codeOutput, Param: "standard output", Message: "cannot be written: " + no.Error(),
			Hint: "send it somewhere else"}
	}
	if *p.failed == nil {
		*p.failed = err
	}
	return n, err
}

const codeOutput state.Code = "output_failed"

// flush prints what was held back because it could have begun a secret.
func (s Streams) flush() {
	for _, w := range []io.Writer{s.Out, s.Err} {
		if w, ok := w.(*redact.Writer); ok {
			_ = w.Flush() // a reader that is gone needs nothing
		}
	}
}

// shown is visible.Text for output that may be a CI job's log, where it is read as
// commands as well: no line of it is one.
func (s Streams) shown(text string) string { return s.defuse(visible.Text(text)) }

// print prints a line, which is fit to be printed, to Out: on a terminal wrapped at words, with first before its first
// row and rest before the others.
func (s Streams) print(first, rest, text string) error {
	if s.OutTTY {
		text = strings.Join(s.fold(first, rest, text), "\n")
	} else {
		text = first + text
	}
	_, err := fmt.Fprintln(s.Out, text)
	return err
}

// say is print for Err.
func (s Streams) say(text string) {
	if s.ErrTTY {
		text = strings.Join(s.ofErr().fold("", "  ", text), "\n")
	}
	fmt.Fprintln(s.Err, text)
}

// fold returns the rows in which a terminal shows a line: it as it is where it fits, else broken at spaces. Secrets are
// taken out before, since one with a space in it would not be found in two rows.
func (s Streams) fold(first, rest, text string) []string {
	if cells(first)+cells(text) <= s.Width() {
		return []string{first + text}
	}
	text = s.Secrets.Text(text)
	rows := strings.Split(ansi.Wordwrap(first+text, s.Width()-cells(rest), ""), "\n")
	for i := range rows[1:] {
		rows[i+1] = rest + rows[i+1]
	}
	return rows
}

// CI systems take lines like "::set-output …" and, anywhere in a line,
// "##[…", "##vso[…", "##teamcity[…" for commands.
var (
	lineCommand   = pattern.Lazy(`(?m)^(\s*:):`)
	inlineCommand = pattern.Lazy(`##([a-z]*\[)`)
)

// defuse changes what a CI system would take for a command, where one reads along.
func (s Streams) defuse(text string) string {
	if !s.CI {
		return text
	}
	return inlineCommand().ReplaceAllString(lineCommand().ReplaceAllString(text, "$1 :"), "# #$1")
}

// printJSON prints what a command found: one line for programs, indented on a terminal.
func printJSON(streams Streams, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if streams.OutTTY {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := streams.Out.Write(machineText(b.Bytes()))
	return err
}

// printLine prints JSON on one line, also on a terminal.
func printLine(streams Streams, v any) error {
	streams.OutTTY = false
	return printJSON(streams, v)
}

// machineText makes JSON fit for a terminal and a CI log too, without changing
// what it says: what could not be seen, or be a command, is written as an escape.
func machineText(data []byte) []byte {
	return jsonCommand().ReplaceAll(visible.JSON(data), []byte(`\u0023$1`))
}

var jsonCommand = pattern.Lazy(`#(#[a-z]*\[)`)

// watching is how a command that only watches what goes on without it ends: quietly, as its end stops nothing, and as
// soon as no one reads its output any more, although there is nothing to be written.
type watching struct {
	out  *os.File
	only atomic.Bool

	begin sync.Once
	left  func() // is called when the reader has left
	wake  *os.File
	ended sync.WaitGroup
}

// watch says whether the command only watches from now on.
func (s Streams) watch(only bool) {
	w := s.Watching
	w.only.Store(only)
	if only && w.left != nil {
		w.begin.Do(w.start)
	}
}

// watches reports whether it does.
func (s Streams) watches() bool { return s.Watching.only.Load() }

// start looks after the reader until close. Only one of a pipe can leave.
func (w *watching) start() {
	info, err := w.out.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return
	}
	woken, wake, err := os.Pipe()
	if err != nil {
		return // the next write fails
	}
	w.wake = wake
	w.ended.Go(func() {
		defer woken.Close()
		if readerLeft(int(w.out.Fd()), int(woken.Fd())) && w.only.Load() {
			w.left()
		}
	})
}

// close ends that.
func (w *watching) close() {
	w.begin.Do(func() {}) // it does not begin any more
	if w.wake != nil {
		w.wake.Close()
	}
	w.ended.Wait()
}

// readerLeft waits until the reader of a pipe has closed it, or something happens to woken. macOS reports the first
// only where some event is asked for; no pipe has one of out-of-band data.
func readerLeft(pipe, woken int) bool {
	fds := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLPRI}, {Fd: int32(woken), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil || fds[1].Revents != 0:
			return false
		case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		}
	}
}
