// Package scan reads the events that come most often, pieces of text, in one pass
// and without the cost of encoding/json.
//
// The invariant: what a Scanner accepts means the same to encoding/json. It gives
// up on everything unusual, and its caller then leaves the event to that.
package scan

import (
	"encoding/json"
	"unicode/utf8"

	"holon/agentd/model"
)

// Scanner walks over the tokens of a JSON text.
type Scanner struct {
	data []byte
	at   int
}

// Of returns a scanner of data, which it keeps.
func Of(data []byte) Scanner { return Scanner{data: data} }

// End reports whether nothing but white space is left.
func (s *Scanner) End() bool {
	s.space()
	return s.at == len(s.data)
}

func (s *Scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// Next consumes c, after white space, if it comes next.
func (s *Scanner) Next(c byte) bool {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// Plain consumes a string without escapes and returns what is in it.
func (s *Scanner) Plain() ([]byte, bool) {
	if !s.Next('"') {
		return nil, false
	}
	start := s.at
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return s.data[start : s.at-1], true
		case c == '\\' || c < 0x20:
			return nil, false
		}
	}
	return nil, false
}

// Text consumes a string and returns its value.
func (s *Scanner) Text() (model.WireText, bool) {
	s.space()
	start := s.at
	if v, ok := s.Plain(); ok {
		return model.WireText(v), utf8.Valid(v)
	}
	for s.at < len(s.data) && s.data[s.at] != '"' { // Plain stopped at an escape, or at what is no string
		if s.data[s.at] == '\\' {
			s.at++
		}
		s.at++
	}
	if s.at >= len(s.data) {
		return "", false
	}
	s.at++
	var v model.WireText
	err := json.Unmarshal(s.data[start:s.at], &v)
	return v, err == nil
}

// Number consumes a small whole number.
func (s *Scanner) Number() (n int, ok bool) {
	s.space()
	start := s.at
	for ; s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9'; s.at++ {
		n = 10*n + int(s.data[s.at]-'0')
	}
	digits := s.at - start
	return n, digits == 1 || digits > 1 && digits < 10 && s.data[start] != '0'
}
