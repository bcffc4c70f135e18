package redact

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Constants lists, by the name of a member, the values that a JSON format defines
// for it, such as those of a discriminator. The package that owns the format gives
// them to whatever writes it.
type Constants map[string][]string

// Kinds of values that Constants may list.
const (
	// Any is every value, of members whose values are structure: ids, times, paths. A secret
	// that is a part of one would make the text unreadable.
	Any = "*"
	// Word is every value of lower-case letters and '_', '.' and ':', of members whose values are words of a format.
	Word = "a"
)

// With returns the constants of several formats together.
func (c Constants) With(more ...Constants) Constants {
	all := maps.Clone(c)
	for _, constants := range more {
		for name, values := range constants {
			all[name] = slices.Concat(all[name], values)
		}
	}
	return all
}

// JSON returns a JSON text without the known values: data itself if it has none.
// The result is JSON again, with the same members in the same order.
//
// Two things stay as they are even when they are a known value, or hold one, so
// that a reader can still make sense of the text: a member's name of lower-case
// letters and underscores only, and a string that constants allow as the value of
// its member. In every other string, the same word is hidden. Text that is not JSON
// is treated as text.
func (s *Set) JSON(data []byte, constants ...Constants) []byte {
	m := s.load()
	if m == nil {
		return data
	}
	if start, _ := m.find(data); start < 0 {
		return data
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	out := make([]byte, 0, len(data))
	copied, member := 0, jsontext.Value(nil)
	for {
		if dec.PeekKind() != '"' {
			_, err := dec.ReadToken()
			if errors.Is(err, io.EOF) && dec.StackDepth() == 0 {
				return append(out, data[copied:]...)
			} else if err != nil {
				return m.Redact(data)
			}
			continue
		}
		quoted, err := dec.ReadValue()
		if err != nil {
			return m.Redact(data)
		}
		end := int(dec.InputOffset())
		out, copied = append(out, data[copied:end-len(quoted)]...), end
		in, length := dec.StackIndex(dec.StackDepth())
		structural := false
		switch {
		case in == '{' && length%2 == 1:
			member, structural = quoted.Clone(), isWord(quoted, "_")
		case in == '{':
			structural = slices.ContainsFunc(constants, func(c Constants) bool { return c.allow(member, quoted) })
		}
		if !structural {
			quoted = m.jsonString(quoted)
		}
		out = append(out, quoted...)
	}
}

// isWord reports whether a quoted string has lower-case letters and characters of more
// only. Members of every format of ours have such names, generated secrets do not.
func isWord(quoted []byte, more string) bool {
	for _, c := range quoted[1 : len(quoted)-1] {
		if (c < 'a' || c > 'z') && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return true
}

// allow reports whether a format defines value for the member name. Both are in
// quotes.
func (c Constants) allow(name, value []byte) bool {
	values := c[string(name[1:len(name)-1])]
	return slices.Contains(values, Any) || slices.Contains(values, Word) && isWord(value, "_.:") ||
		slices.Contains(values, string(value[1:len(value)-1])) // none needs an escape
}

// jsonString redacts one string. Its encoded form may match where the decoded text
// does not, as with the n of a \n; then it is left.
func (m *Matcher) jsonString(quoted []byte) []byte {
	if start, _ := m.find(quoted); start < 0 {
		return quoted
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return m.Redact(quoted) // it is not UTF-8
	}
	clean := m.Redact(text)
	if bytes.Equal(clean, text) {
		return quoted
	}
	return []byte(`"` + jsonEscape(string(clean), false) + `"`)
}
