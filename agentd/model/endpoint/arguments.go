package endpoint

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"holon/agentd/model"
)

// Arguments collects the pieces of a call's arguments. It joins halves of characters, and drops an empty object that a
// server sends before the real one.
type Arguments struct {
	joiner model.Joiner
	text   strings.Builder
	empty  string // the object, while nothing follows it
}

// Add takes a piece and returns what is to be passed on for it.
func (a *Arguments) Add(piece model.WireText) string {
	text := a.joiner.Join(piece)
	switch next := strings.TrimSpace(text); {
	case a.text.Len() > 0:
	case next == "{}":
		a.empty = text
		return ""
	case next == "":
		a.empty += text
		return ""
	case next[0] != '{':
		text = a.empty + text
	}
	a.empty = ""
	a.text.WriteString(text)
	return text
}

// End ends the arguments and returns the rest that is to be passed on.
func (a *Arguments) End() string {
	rest := a.empty + a.joiner.End()
	a.empty = ""
	a.text.WriteString(rest)
	return rest
}

// String returns what was passed on.
func (a *Arguments) String() string { return a.text.String() }

// Text is a string of a provider's, or a number that a server sends in its place. Anything else is "".
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	switch c := data[0]; {
	case c == '"':
		return json.Unmarshal(data, (*string)(t))
	case c == '-' || '0' <= c && c <= '9':
		*t = Text(data)
	}
	return nil
}

// Index is a number, or a numeric string that a server sends in its place. Anything else is 0.
type Index int

// UnmarshalJSON implements json.Unmarshaler.
func (i *Index) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64); err == nil && n > -1e9 && n < 1e9 {
		*i = Index(n)
	}
	return nil
}
