// Package preview makes text for a model or a person of what a command printed:
// readable, bounded, and saying what it leaves out.
//
// The invariant: a preview is valid UTF-8 without anything that a terminal
// obeys, nothing in it was not printed except what it marks as its own, and one
// that is not cut is whole. The same bytes and budget give the same preview.
package preview

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"holon/agentd/process"
)

// MinBytes is the smallest useful budget; the notice of a cut alone takes about
// a hundred bytes.
const MinBytes = 400

// Text is a captured stream made readable.
type Text struct {
	// gap says that bytes are missing between head and tail; otherwise
	// everything is in head.
	head, tail string
	gap        bool
	bytes      int64
	lines      int64
}

// Of makes the captured stream readable. Of one that is still open it leaves out
// the beginning of a last character whose rest has not arrived.
func Of(c process.Capture) Text {
	t := Text{bytes: c.Total, lines: c.Lines, gap: c.Omitted() > 0}
	arrived := func(b []byte) []byte { return b }
	if c.Open {
		arrived = trimPartialEnd
	}
	if !t.gap {
		t.head = readable(arrived(append(append([]byte{}, c.Head...), c.Tail...)))
		return t
	}
	// The gap may have cut characters in two; that is not the command's fault.
	t.head, t.tail = readable(trimPartialEnd(c.Head)), readable(arrived(trimPartialStart(c.Tail)))
	return t
}

// Size returns about how many bytes a preview without a bound would have.
func (t Text) Size() int { return len(t.head) + len(t.tail) }

// Cut returns at most about budget bytes of the stream, cut in the middle where
// it is longer, or nil where nothing was printed.
func (t Text) Cut(budget int) (_ *string, truncated bool) {
	if t.bytes == 0 {
		return nil, false
	}
	budget = max(budget, MinBytes)
	if !t.gap && len(t.head) <= budget {
		return &t.head, false
	}
	head, tail := t.head, t.tail
	if !t.gap {
		tail = t.head
	}
	half := budget / 2
	head, headWhole := firstBytes(head, half)
	tail, tailWhole := lastBytes(tail, half)
	s := joined(head, tail, headWhole && tailWhole, strconv.FormatInt(t.lineCount(tail), 10),
		strconv.FormatInt(t.bytes, 10))
	return &s, true
}

// joined returns a preview of the beginning and the end of an output, with the notice of the cut. lines and bytes are
// those of the output, "" where that is not known; whole says that only whole lines are shown.
func joined(head, tail string, whole bool, lines, bytes string) string {
	shown := fmt.Sprintf("first %d and last %d characters", utf8.RuneCountInString(head), utf8.RuneCountInString(tail))
	if whole {
		shown = fmt.Sprintf("first %d and last %d lines", strings.Count(head, "\n"), countLines(tail))
		if lines != "" {
			shown += " of " + lines
		}
	}
	switch {
	case bytes == "":
	case whole:
		shown += ", " + bytes + " bytes in all"
	default:
		shown += " of " + bytes + " bytes in all"
	}
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + "...\n[output truncated: showing " + shown + "]\n...\n" + tail
}

// lineCount includes a last line without newline.
func (t Text) lineCount(tail string) int64 {
	if strings.HasSuffix(tail, "\n") {
		return t.lines
	}
	return t.lines + 1
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// firstBytes returns at most n bytes of the beginning, whole lines if that does
// not cost more than half of them.
func firstBytes(s string, n int) (_ string, wholeLines bool) {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if i := strings.LastIndexByte(s, '\n'); i >= len(s)/2 {
		return s[:i+1], true
	}
	return s, false
}

// lastBytes is firstBytes for the end.
func lastBytes(s string, n int) (_ string, wholeLines bool) {
	if len(s) > n {
		i := len(s) - n
		for i < len(s) && !utf8.RuneStart(s[i]) {
			i++
		}
		s = s[i:]
	}
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)/2 {
		return s[i+1:], true
	}
	return s, false
}

func trimPartialEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

func trimPartialStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// Streams previews both streams of a command within one budget. Standard error is usually short and important; it gets
// a quarter, or what standard output leaves.
func Streams(stdout, stderr process.Capture, budget int) (out, errs *string, truncated bool) {
	o, e := Of(stdout), Of(stderr)
	budget = max(budget, MinBytes)
	errBudget := min(e.Size(), max(budget/4, budget-o.Size()))
	out, cutOut := o.Cut(budget - errBudget)
	errs, cutErr := e.Cut(errBudget)
	return out, errs, cutOut || cutErr
}

// Joined previews both streams as one text: the only one that has something as
// it is, two under their names.
func Joined(stdout, stderr process.Capture, budget int) (text string, truncated bool) {
	out, errs, truncated := Streams(stdout, stderr, budget)
	switch {
	case out == nil && errs == nil:
		return "", false
	case errs == nil:
		return *out, truncated
	case out == nil && stdout.Total == 0:
		return "stderr:\n" + *errs, truncated
	}
	text = "stdout:\n" + *out
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + "stderr:\n" + *errs, truncated
}

// Kept says what a log file lacks of the stream that it is of, "" for nothing.
func Kept(name string, c process.Capture) string {
	switch {
	case c.LogErr != nil:
		return fmt.Sprintf("%s: the log file ends after %d of %d bytes: %v", name, c.Logged, c.Total, c.LogErr)
	case c.Logged >= c.Total:
		return ""
	case c.OverBudget:
		return fmt.Sprintf("%s: the log file holds the first %d of %d bytes: the files of the turn may take no "+
			"more of the disk", name, c.Logged, c.Total)
	}
	return fmt.Sprintf("%s: the log file holds the first %d of %d bytes", name, c.Logged, c.Total)
}
