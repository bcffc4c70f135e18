package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"holon/internal/userprogram"
	"holon/internal/visible"
)

// copyPatch prints a patch line by line, fit for a terminal and coloured.
func (s Streams) copyPatch(in io.Reader) error {
	inHunk, whole, style := false, true, ""
	return s.copyLines(in, func(text string) string {
		if whole { // else it goes on with a line that is longer than a piece
			inHunk = !strings.HasPrefix(text, "diff --git ") && (inHunk || strings.HasPrefix(text, "@@ "))
			style = styleOf(text, inHunk)
		}
		line := strings.TrimSuffix(s.shown(text), "\n")
		if style != "" {
			line = s.paint(style, line)
		}
		if whole = strings.HasSuffix(text, "\n"); whole {
			line += "\n"
		}
		return line
	})
}

// styleOf is the style of a line of a patch, "" for none.
func styleOf(line string, inHunk bool) string {
	switch {
	case !inHunk:
		return styleBold
	case strings.HasPrefix(line, "@@ "):
		return styleCode
	case strings.HasPrefix(line, "+"):
		return styleGreen
	case strings.HasPrefix(line, "-"):
		return styleRed
	}
	return ""
}

// paged calls print with streams whose output a pager shows, when there is a terminal and a pager: that of HOLON_PAGER
// or PAGER, else less where it is installed; "" and "cat" mean none. A pager that is closed early ends the output
// without an error.
func (s Streams) paged(print func(Streams) error) error {
	variable, name := chosenPager()
	if !s.OutTTY || name == "" || name == "cat" {
		return print(s)
	}
	pager := userprogram.Command(context.Background(), name) // it ends when the person closes it
	pager.Env = append([]string{"LESS=FRX", "LV=-c"}, os.Environ()...)
	pager.Stdout, pager.Stderr = os.Stdout, os.Stderr
	in, err := pager.StdinPipe()
	if err == nil {
		err = pager.Start()
	}
	if err != nil {
		return print(s)
	}
	paged := s
	paged.Out = s.Secrets.Writer(in, nil)
	err = print(paged)
	closed := errors.Join(in.Close(), pager.Wait())
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	if closed != nil {
		return usage(variable, fmt.Sprintf("%q: %v", visible.OneLine(name, 100), closed),
			"name a pager that works, or cat for none")
	}
	return nil
}

// chosenPager is the pager, "" for none, and the variable that names one.
func chosenPager() (variable, name string) {
	for _, variable = range []string{"HOLON_PAGER", "PAGER"} {
		if name, set := os.LookupEnv(variable); set {
			return variable, name
		}
	}
	if userprogram.Installed("less") {
		name = "less"
	}
	return variable, name
}
