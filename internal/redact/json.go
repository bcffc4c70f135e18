package redact

import (
	"bytes"
	"encoding/json"
)

// JSON returns a JSON text without the known values: data itself where there is
// none. What it returns is JSON again, with the same members in the same order;
// only strings and names of members are changed. Text that is not JSON is treated
// as text.
func (s *Set) JSON(data []byte) []byte {
	m := s.load()
	if m == nil {
		return data
	}
	if start, _ := m.search.find(data); start < 0 {
		return data
	}
	if !json.Valid(data) {
		return m.Redact(data)
	}
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		open := bytes.IndexByte(data, '"')
		if open < 0 {
			break
		}
		end := open + stringLength(data[open:])
		out = append(append(out, data[:open]...), m.jsonString(data[open:end])...)
		data = data[end:]
	}
	return append(out, data...)
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

// jsonString redacts one string. A match within its escapes may be none within
// what it says, such as one that begins with the n of a \n; then it is left.
func (m *Matcher) jsonString(quoted []byte) []byte {
	if start, _ := m.search.find(quoted); start < 0 {
		return quoted
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return quoted // valid JSON is read, so this does not happen
	}
	clean := m.Text(text)
	if clean == text {
		return quoted
	}
	return []byte(`"` + jsonEscape(clean, false) + `"`)
}
