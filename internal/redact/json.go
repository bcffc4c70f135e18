package redact

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Constants lists, by the name of a member, the values that a JSON format defines
// for it, such as those of a discriminator. The package that owns the format gives
// them to whatever writes it. Any stands for every value.
type Constants map[string][]string

// Any is listed for members whose values are structure: ids, times, paths. A secret
// that is a part of one would make the text unreadable.
const Any = "*"

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
	if !json.Valid(data) {
		return m.Redact(data)
	}
	out := make([]byte, 0, len(data))
	var last []byte // the string before, in quotes
	for len(data) > 0 {
		open := bytes.IndexByte(data, '"')
		if open < 0 {
			break
		}
		end := open + stringLength(data[open:])
		quoted, structural := data[open:end], false
		switch {
		case followedByColon(data[end:]):
			structural = isWord(quoted)
		case string(bytes.TrimSpace(data[:open])) == ":":
			structural = slices.ContainsFunc(constants, func(c Constants) bool { return c.allow(last, quoted) })
		}
		out, last = append(out, data[:open]...), quoted
		if !structural {
			quoted = m.jsonString(quoted)
		}
		out, data = append(out, quoted...), data[end:]
	}
	return append(out, data...)
}

// followedByColon reports whether the string before rest is a member's name.
func followedByColon(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// isWord reports whether a quoted string has lower-case letters and underscores
// only. Members of every format of ours have such names, generated secrets do not.
func isWord(quoted []byte) bool {
	for _, c := range quoted[1 : len(quoted)-1] {
		if c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// allow reports whether a format defines value for the member name. Both are in
// quotes.
func (c Constants) allow(name, value []byte) bool {
	if len(name) < 2 {
		return false
	}
	values := c[string(name[1:len(name)-1])]
	return slices.Contains(values, Any) || slices.Contains(values, string(value[1:len(value)-1])) // none needs an escape
}

// stringLength is the length of the JSON string that valid JSON begins with.
func stringLength(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// jsonString redacts one string. Its encoded form may match where the decoded text
// does not, as with the n of a \n; then it is left.
func (m *Matcher) jsonString(quoted []byte) []byte {
	if start, _ := m.find(quoted); start < 0 {
		return quoted
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return m.Redact(quoted) // strings of valid JSON decode, so this does not happen
	}
	clean := m.Text(text)
	if clean == text {
		return quoted
	}
	return []byte(`"` + jsonEscape(clean, false) + `"`)
}
