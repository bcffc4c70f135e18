package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	maxDepth  = 512 // of a body's JSON
	maxMember = 512 // bytes of a top-level name, or of the model's, as written
)

// modelScan reads which model a JSON body names, as it passes by in any pieces.
// It is strict where a provider's parser could read another structure into the
// same bytes: one object of well-formed UTF-8, no comments, plain names, one
// model. What it does not judge, numbers for one, can't move a quote or bracket.
type modelScan struct {
	model string
	found bool

	state   scanState
	open    []byte // the brackets that are open, outermost first
	hex     int    // digits of an escape to come
	more    int    // bytes of a rune to come
	text    []byte // of the string that is taken, with its quotes
	taking  bool
	isName  bool // the string is a name of a member
	isModel bool // the value of the member "model" comes
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

var errBody = errors.New("the body is not the JSON that providers take")

func malformed(what string) error { return fmt.Errorf("%w: %s", errBody, what) }

// feed takes the next piece of the body.
func (s *modelScan) feed(piece []byte) error {
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
func (s *modelScan) end() error {
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
func (s *modelScan) string(piece []byte) (int, error) {
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
func (s *modelScan) special(c byte) error {
	switch {
	case s.more > 0:
		if c&0xC0 != 0x80 {
			return malformed("a string is not UTF-8")
		}
		s.more--
	case c == '"':
		s.state = wantComma
		if s.isName {
			s.state = wantColon
		}
	case c == '\\':
		s.state = inEscape
	case c >= 0xC2 && c < 0xE0:
		s.more = 1
	case c >= 0xE0 && c < 0xF0:
		s.more = 2
	case c >= 0xF0 && c < 0xF5:
		s.more = 3
	default:
		return malformed("a string holds a control character, or is not UTF-8")
	}
	return nil
}

// take keeps the bytes of a string that is of interest, and reads it at its end.
func (s *modelScan) take(piece []byte) error {
	if !s.taking {
		return nil
	}
	if len(s.text)+len(piece) > maxMember {
		return malformed("a name at its top is too long")
	}
	s.text = append(s.text, piece...)
	if s.state != wantComma && s.state != wantColon {
		return nil
	}
	s.taking = false
	var text string
	if json.Unmarshal(s.text, &text) != nil {
		return malformed("a string can't be read")
	}
	if s.isName {
		return s.name(text)
	}
	s.model, s.found, s.isModel = text, true, false
	return nil
}

// name looks at the name of a top-level member. Parsers differ in what they take
// for the same name, so only names pass that nobody can take for another.
func (s *modelScan) name(name string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return malformed("a name at its top is not plain ASCII")
	}
	if !strings.EqualFold(name, "model") {
		return nil
	}
	if name != "model" || s.found {
		return malformed("it names a model more than once, or in another spelling")
	}
	s.isModel = true
	return nil
}

// step handles a byte outside of the plain part of a string.
func (s *modelScan) step(c byte) error {
	switch s.state {
	case inEscape:
		if strings.IndexByte(`"\/bfnrtu`, c) < 0 {
			return malformed("a string has an unknown escape")
		}
		if s.state = inString; c == 'u' {
			s.state, s.hex = inHex, 4
		}
		return s.take([]byte{c})
	case inHex:
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return malformed("a string has a broken escape")
		}
		if s.hex--; s.hex == 0 {
			s.state = inString
		}
		return s.take([]byte{c})
	case inScalar:
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == 'E' || c == '.' || c == '+' || c == '-' {
			return nil
		}
		s.state = wantComma
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return nil
	}
	return s.token(c)
}

// token handles a byte between strings that is no space.
func (s *modelScan) token(c byte) error {
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
func (s *modelScan) value(c byte) error {
	if s.isModel && c != '"' {
		return malformed("its model is not a string")
	}
	switch {
	case c == '"':
		s.begin(false)
	case c == '{' || c == '[':
		return s.push(c)
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		s.state = inScalar
	default:
		return malformed(fmt.Sprintf("%q is out of place", c))
	}
	return nil
}

// begin begins a string.
func (s *modelScan) begin(name bool) {
	s.state, s.isName = inString, name
	if s.taking = name && len(s.open) == 1 || s.isModel; s.taking {
		s.text = append(s.text[:0], '"')
	}
}

// behind handles what follows a value.
func (s *modelScan) behind(c byte) error {
	switch inside := s.open[len(s.open)-1]; {
	case c == ',' && inside == '{':
		s.state = wantName
	case c == ',':
		s.state = wantValue
	case c == '}' && inside == '{', c == ']' && inside == '[':
		return s.pop()
	default:
		return malformed(fmt.Sprintf("%q is out of place", c))
	}
	return nil
}

func (s *modelScan) push(c byte) error {
	if len(s.open) == maxDepth {
		return malformed("it is nested too deep")
	}
	s.open = append(s.open, c)
	if s.state = wantValueOrEnd; c == '{' {
		s.state = wantNameOrEnd
	}
	return nil
}

func (s *modelScan) pop() error {
	s.open = s.open[:len(s.open)-1]
	if s.state = wantComma; len(s.open) == 0 {
		s.state = atEnd
	}
	return nil
}
