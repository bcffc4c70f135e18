package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	maxDepth  = 512 // of a body's JSON
	maxMember = 512 // bytes of a key or word of the grammar, and of a number
	maxPrefix = 16  // bytes that tell how content is given
)

// scan checks a JSON body against a grammar as it passes by in any pieces, and
// reads which model it names. It is strict where a provider's parser could read
// another document into the same bytes: one object of well-formed UTF-8, no
// comments, known keys in their plain spelling, each once. Within values that are
// free, keys are not judged. Its memory is bounded by maxDepth and maxMember.
type scan struct {
	model string
	found bool
	read  int64 // bytes of strings that the model reads
	wide  bool  // something can be more tokens than it has bytes

	state  scanState
	open   []bracket // the brackets that are open, outermost first
	next   *rule     // of the value that comes or is in a string
	hex    int       // digits of an escape to come
	more   int       // bytes of a rune to come
	lo, hi byte      // what the next of them may be
	text   []byte    // of the string or scalar that is taken, without quotes
	taking bool
	isName bool // the string is a name of a member
}

// bracket is an open bracket.
type bracket struct {
	rule   *rule
	seen   uint64 // keys of an object
	object bool
}

type scanState uint8

const (
	wantObject    scanState = iota // at the beginning
	wantName                       // behind a comma in an object
	wantNameOrEnd                  // behind {
	wantColon
	wantValue
	wantValueOrEnd // behind [
	wantComma      // behind a value
	inString
	inEscape
	inHex
	inScalar // a number, true, false or null
	atEnd
)

var (
	errBody    = errors.New("the body is not the JSON that providers take")
	errFeature = errors.New("what the provider would do itself is not allowed")
)

func malformed(what string) error { return fmt.Errorf("%w: %s", errBody, what) }

func unallowed(what string) error { return fmt.Errorf("%w: %s", errFeature, what) }

func newScan(grammar *rule) scan { return scan{next: grammar} }

// feed takes the next piece of the body.
func (s *scan) feed(piece []byte) error {
	for i := 0; i < len(piece); {
		if s.state == inString {
			n, err := s.string(piece[i:])
			if err != nil {
				return err
			}
			i += n
			continue
		}
		if err := s.step(piece[i]); err != nil {
			return err
		}
		i++
	}
	return nil
}

// end says whether the body was whole.
func (s *scan) end() error {
	if s.state != atEnd {
		return malformed("it ends too early")
	}
	if !s.found {
		return malformed("it names no model")
	}
	return nil
}

// plain are the bytes of a string that need no look.
var plain = func() (t [256]bool) {
	for c := ' '; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// string takes bytes of a string and returns how many.
func (s *scan) string(piece []byte) (int, error) {
	n := 0
	if s.more == 0 {
		for n < len(piece) && plain[piece[n]] {
			n++
		}
	}
	if n < len(piece) {
		if err := s.special(piece[n]); err != nil {
			return 0, err
		}
		n++
	}
	return n, s.take(piece[:n])
}

// special handles a byte of a string that is more than a letter.
func (s *scan) special(c byte) error {
	switch {
	case s.more > 0:
		if c < s.lo || c > s.hi {
			return malformed("a string is not UTF-8")
		}
		s.more, s.lo, s.hi = s.more-1, 0x80, 0xBF
	case c == '"':
		s.state = wantComma
		if s.isName {
			s.state = wantColon
		}
	case c == '\\':
		if s.taking {
			return malformed("a key or word of its grammar is written with an escape")
		}
		s.state = inEscape
	case c >= 0xC2 && c < 0xF5:
		s.rune(c)
	default:
		return malformed("a string holds a control character, or is not UTF-8")
	}
	return nil
}

// rune begins a rune of several bytes. Not every second byte may follow each
// first one: forms that are too long, surrogates and what is beyond Unicode.
func (s *scan) rune(c byte) {
	s.more, s.lo, s.hi = 1, 0x80, 0xBF
	switch {
	case c >= 0xF0:
		s.more = 3
	case c >= 0xE0:
		s.more = 2
	}
	switch c {
	case 0xE0:
		s.lo = 0xA0
	case 0xED:
		s.hi = 0x9F
	case 0xF0:
		s.lo = 0x90
	case 0xF4:
		s.hi = 0x8F
	}
}

// take keeps the bytes of a string that is of interest, and judges it when it has
// what it needs of it.
func (s *scan) take(piece []byte) error {
	if !s.isName && s.next.read {
		s.read += int64(len(piece))
	}
	if !s.taking {
		return nil
	}
	most, prefix := maxMember, !s.isName && s.next.text == dataText
	if prefix {
		most = maxPrefix
	}
	ended := s.state == wantComma || s.state == wantColon
	if ended {
		piece = piece[:len(piece)-1]
	}
	room := most - len(s.text)
	s.text = append(s.text, piece[:min(room, len(piece))]...)
	switch {
	case prefix && (ended || len(s.text) == most):
	case len(piece) > room:
		return malformed("a key or word of its grammar is too long")
	case !ended:
		return nil
	}
	s.taking = false
	return s.judge(string(s.text))
}

// judge looks at a name of a member, or at a string that its rule restricts.
func (s *scan) judge(text string) (err error) {
	if s.isName {
		in := &s.open[len(s.open)-1]
		s.next, err = in.rule.member(text, &in.seen)
		return err
	}
	if s.next.text == modelText {
		s.model, s.found = text, true
	}
	return s.next.check(text)
}

// step handles a byte outside of the plain part of a string.
func (s *scan) step(c byte) error {
	switch s.state {
	case inEscape:
		return s.escape(c)
	case inHex:
		return s.hexDigit(c)
	case inScalar:
		if strings.IndexByte(scalarBytes, c) >= 0 {
			return s.scalar(c)
		}
		if err := s.endScalar(); err != nil {
			return err
		}
	}
	if strings.IndexByte(" \t\n\r", c) >= 0 {
		return nil
	}
	return s.token(c)
}

// scalarBytes are the bytes of numbers, true, false and null.
const scalarBytes = "0123456789abcdefghijklmnopqrstuvwxyzE.+-"

// escape handles the byte after a backslash.
func (s *scan) escape(c byte) error {
	if strings.IndexByte(`"\/bfnrtu`, c) < 0 {
		return malformed("a string has an unknown escape")
	}
	if s.state = inString; c == 'u' {
		s.state, s.hex = inHex, 4
	}
	return s.take([]byte{c})
}

// hexDigit handles a digit of a \u escape.
func (s *scan) hexDigit(c byte) error {
	if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
		return malformed("a string has a broken escape")
	}
	if s.hex--; s.hex == 0 {
		s.state = inString
	}
	return s.take([]byte{c})
}

// endScalar checks a number or literal that is complete.
func (s *scan) endScalar() error {
	if !json.Valid(s.text) {
		return malformed("a number or word is not JSON")
	}
	if s.next.only != "" && string(s.text) != s.next.only {
		return unallowed(fmt.Sprintf("%s: %.40s", s.next.name, s.text))
	}
	s.state = wantComma
	return nil
}

// token handles a byte between strings, other than white space.
func (s *scan) token(c byte) error {
	switch s.state {
	case wantObject:
		if c == '{' {
			return s.push(c)
		}
	case wantName, wantNameOrEnd:
		if c == '"' {
			s.begin(true)
			return nil
		}
		if c == '}' && s.state == wantNameOrEnd {
			return s.pop()
		}
	case wantColon:
		if c == ':' {
			s.state = wantValue
			return nil
		}
	case wantValue, wantValueOrEnd:
		if c == ']' && s.state == wantValueOrEnd {
			return s.pop()
		}
		return s.value(c)
	case wantComma:
		return s.behind(c)
	}
	return malformed(fmt.Sprintf("%q is out of place", c))
}

// value begins a value.
func (s *scan) value(c byte) error {
	r := s.next
	s.wide = s.wide || r.wide
	switch {
	case c == '"' && (r.text != noText || r.free):
		s.begin(false)
		return nil
	case c == '"':
		return unallowed("a string as " + r.name)
	case c == '{' || c == '[':
		if !r.holds(c) {
			return unallowed(fmt.Sprintf("%q as %s", c, r.name))
		}
		return s.push(c)
	case strings.IndexByte("-0123456789tfn", c) < 0:
		return malformed(fmt.Sprintf("%q is out of place", c))
	case r.text == modelText || r.text == wordText:
		return malformed("its model, or a type, is not a string")
	}
	s.state, s.text = inScalar, s.text[:0]
	return s.scalar(c)
}

// holds reports whether the value may be an object or an array, as its bracket says.
func (r *rule) holds(c byte) bool {
	if c == '{' {
		return r.free || r.keys != nil
	}
	return r.free || r.items != nil
}

// scalar takes a byte of a number or literal.
func (s *scan) scalar(c byte) error {
	if len(s.text) == maxMember {
		return malformed("a number is too long")
	}
	s.text = append(s.text, c)
	return nil
}

// begin begins a string.
func (s *scan) begin(name bool) {
	s.state, s.isName = inString, name
	if name {
		s.taking = !s.open[len(s.open)-1].rule.free
	} else {
		s.taking = s.next.text > anyText
	}
	s.text = s.text[:0]
}

// behind handles what follows a value.
func (s *scan) behind(c byte) error {
	switch inside := s.open[len(s.open)-1]; {
	case c == ',' && inside.object:
		s.state = wantName
	case c == ',':
		s.state, s.next = wantValue, inside.within()
	case c == '}' && inside.object, c == ']' && !inside.object:
		return s.pop()
	default:
		return malformed(fmt.Sprintf("%q is out of place", c))
	}
	return nil
}

// within is the rule of what an array holds, or of what a free value does.
func (b bracket) within() *rule {
	if b.rule.free {
		return b.rule
	}
	return b.rule.items
}

func (s *scan) push(c byte) error {
	if len(s.open) == maxDepth {
		return malformed("it is nested too deep")
	}
	in := bracket{rule: s.next, object: c == '{'}
	s.open = append(s.open, in)
	if s.state = wantNameOrEnd; c == '[' {
		s.state, s.next = wantValueOrEnd, in.within()
	}
	return nil
}

func (s *scan) pop() error {
	s.open = s.open[:len(s.open)-1]
	if s.state = wantComma; len(s.open) == 0 {
		s.state = atEnd
	}
	return nil
}
