package model

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// WireText is a piece of text in a provider's JSON, as it stands between its quotes. Some providers cut a stream
// between the halves of a surrogate pair, and send "\ud83d" at the end of one piece and "\ude00" at the beginning of
// the next; a [Joiner] decodes the two together.
type WireText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *WireText) UnmarshalJSON(data []byte) error {
	if data[0] == '"' { // null and other types are no text
		*t = WireText(data[1 : len(data)-1])
	}
	return nil
}

// Joiner joins the pieces of one text. The zero value is ready.
type Joiner struct{ held WireText }

// Join returns the text that is complete with piece: valid UTF-8, with U+FFFD for a
// half without its partner. A half at the end of piece is held.
func (j *Joiner) Join(piece WireText) string {
	if j.held == "" && strings.IndexByte(string(piece), '\\') < 0 && utf8.ValidString(string(piece)) {
		return string(piece) // as most deltas are
	}
	raw := j.held + piece
	j.held = endingHalf(raw)
	var text string
	_ = json.Unmarshal([]byte(`"`+raw[:len(raw)-len(j.held)]+`"`), &text) // a string of valid JSON can be read
	return text
}

var firstHalf = regexp.MustCompile(`^\\u[dD][89abAB][[:xdigit:]]{2}$`)

// endingHalf returns the escape of a first half with which raw ends, "" for none.
func endingHalf(raw WireText) WireText {
	at := max(0, len(raw)-len(`\ud83d`))
	escapes := at - len(strings.TrimRight(string(raw[:at]), `\`)) // an odd number of them escapes the one at the end
	if escapes%2 == 1 || !firstHalf.MatchString(string(raw[at:])) {
		return ""
	}
	return raw[at:]
}

// End ends the text, and returns U+FFFD when a half was held.
func (j *Joiner) End() string {
	if j.held == "" {
		return ""
	}
	j.held = ""
	return string(utf8.RuneError)
}

// Text returns the text of one piece that no other follows.
func (t WireText) Text() string {
	var j Joiner
	return j.Join(t) + j.End()
}
