package model

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// WireText is a piece of text in a provider's JSON. Some providers cut a stream
// between the halves of a surrogate pair, and send "\ud83d" at the end of one piece
// and "\ude00" at the beginning of the next. encoding/json replaces such a half;
// WireText keeps it, encoded in three bytes like other code points, for [Joiner]
// to join. It is not valid text before that.
type WireText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *WireText) UnmarshalJSON(data []byte) error {
	if n := len(data); n >= 2 && data[0] == '"' && bytes.IndexByte(data, '\\') < 0 && utf8.Valid(data) {
		*t = WireText(data[1 : n-1]) // as most deltas are
		return nil
	}
	var s string
	at := loneHalf(data, 0)
	if at < 0 {
		err := json.Unmarshal(data, &s)
		*t = WireText(s)
		return err
	}
	var b strings.Builder
	start := 1 // behind the quote
	for ; at >= 0; at = loneHalf(data, start) {
		if err := appendString(&b, data[start:at]); err != nil {
			return err
		}
		half, _ := escape(data[at:])
		b.Write(encodeHalf(half))
		start = at + escapeSize
	}
	err := appendString(&b, data[start:len(data)-1])
	*t = WireText(b.String())
	return err
}

// appendString decodes the inside of a JSON string.
func appendString(b *strings.Builder, inner []byte) error {
	if len(inner) == 0 {
		return nil
	}
	var s string
	err := json.Unmarshal(append(append([]byte{'"'}, inner...), '"'), &s)
	b.WriteString(s)
	return err
}

// escapeSize is the length of \uXXXX.
const escapeSize = 6

// loneHalf returns the index of the first escape in a JSON string, from the given
// index on, that is a surrogate without its partner; -1 for none.
func loneHalf(data []byte, from int) int {
	if len(data) < 2 || data[0] != '"' {
		return -1 // not a string; encoding/json reports it
	}
	for i := from; i < len(data); {
		next := bytes.IndexByte(data[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		first, ok := escape(data[i:])
		switch {
		case !ok:
			i += 2
		case !utf16.IsSurrogate(first):
			i += escapeSize
		default:
			second, ok := escape(data[i+escapeSize:])
			if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
				return i
			}
			i += 2 * escapeSize
		}
	}
	return -1
}

// escape reads \uXXXX at the beginning of data.
func escape(data []byte) (rune, bool) {
	if len(data) < escapeSize || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:escapeSize]), 16, 16)
	return rune(n), err == nil
}

func encodeHalf(r rune) []byte {
	return []byte{0xE0 | byte(r>>12), 0x80 | byte(r>>6)&0x3F, 0x80 | byte(r)&0x3F}
}

// decodeHalf reads half a character at the beginning of s.
func decodeHalf(s string) (rune, bool) {
	if len(s) < 3 || s[0] != 0xED || s[1]&0xE0 != 0xA0 || s[2]&0xC0 != 0x80 {
		return 0, false
	}
	return rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), true
}

// Joiner joins the pieces of one text. The zero value is ready.
type Joiner struct{ held WireText }

// Join returns the text that is complete with piece: valid UTF-8, with U+FFFD for a
// half without its partner. A half at the end of piece is held.
func (j *Joiner) Join(piece WireText) string {
	if j.held == "" && !strings.Contains(string(piece), "\xED") { // nearly always
		return string(piece)
	}
	s := string(j.held + piece)
	j.held = ""
	var b strings.Builder
	for at := 0; at < len(s); {
		first, half := decodeHalf(s[at:])
		if !half {
			r, size := utf8.DecodeRuneInString(s[at:])
			b.WriteRune(r)
			at += size
			continue
		}
		if at+3 == len(s) && first < 0xDC00 {
			j.held = WireText(s[at:])
			break
		}
		second, _ := decodeHalf(s[at+3:])
		whole := utf16.DecodeRune(first, second)
		b.WriteRune(whole)
		if at += 3; whole != utf8.RuneError {
			at += 3
		}
	}
	return b.String()
}

// End ends the text, and returns U+FFFD when a half was held.
func (j *Joiner) End() string {
	if j.held == "" {
		return ""
	}
	j.held = ""
	return string(utf8.RuneError)
}

// Holds reports whether a half is held.
func (j *Joiner) Holds() bool { return j.held != "" }
