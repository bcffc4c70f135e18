package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Streams are the standard streams of a command and what is known of them.
// Results go to Out, everything else to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	ErrTTY   bool // Err is a terminal that can be redrawn
	Width    func() int
}

func systemStreams() Streams {
	fd := int(os.Stderr.Fd())
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		ErrTTY: term.IsTerminal(fd) && os.Getenv("TERM") != "dumb",
		Width: func() int {
			if w, _, err := term.GetSize(fd); err == nil && w > 20 {
				return w
			}
			return 80
		},
	}
}

// printable makes text of a model or a container fit to be printed: control
// characters, and with them terminal escapes, are dropped, line ends and tabs kept.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
