package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Mask stands in the place of a secret.
const Mask = "[redacted]"

// Matcher finds secrets in their usual encodings: as they are, base64 and
// base64url at any offset within the encoded data, hex, URL- and JSON-escaped. It
// never changes, so it is safe for concurrent use.
type Matcher struct {
	forms [][]byte      // longest first, none empty, none with a line end
	first [256][][]byte // the same, by their first byte
}

// NewMatcher returns a Matcher for secrets. Those of fewer than atLeast bytes are
// not looked for. Of one with several lines each line of at least that length is,
// and the whole where an encoding makes one line of it.
func NewMatcher(secrets []string, atLeast int) *Matcher {
	var forms []string
	for _, secret := range secrets {
		if len(secret) >= atLeast {
			forms = append(forms, formsOf(secret, atLeast)...)
		}
	}
	if slices.ContainsFunc(forms, meetsMask) {
		forms = append(forms, Mask) // found as a whole, with what overlaps it
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	m := &Matcher{}
	for _, form := range slices.Compact(forms) {
		m.forms = append(m.forms, []byte(form))
		m.first[form[0]] = append(m.first[form[0]], []byte(form))
	}
	return m
}

// search returns where the first form in data lies, or -1, -1. Of several that begin there it is the longest.
func (m *Matcher) search(data []byte) (start, end int) {
	for at, c := range data {
		for _, form := range m.first[c] {
			if bytes.HasPrefix(data[at:], form) {
				return at, at + len(form)
			}
		}
	}
	return -1, -1
}

// meetsMask reports whether form can overlap a mask, so that what a replacement wrote could be taken for a part of it.
func meetsMask(form string) bool {
	for n := 1; n <= min(len(form), len(Mask)); n++ {
		if strings.HasPrefix(form, Mask[len(Mask)-n:]) || strings.HasSuffix(form, Mask[:n]) {
			return true
		}
	}
	return strings.Contains(Mask, form) || strings.Contains(form, Mask)
}

// formsOf returns the encodings of one secret, and each of them as it stands in
// a JSON string: what providers say is JSON. A key of letters, digits, '-' and '_'
// has few.
func formsOf(secret string, atLeast int) []string {
	inHex := hex.EncodeToString([]byte(secret))
	forms := []string{secret, lowerEscapes(url.QueryEscape(secret)), url.QueryEscape(secret),
		lowerEscapes(url.PathEscape(secret)), url.PathEscape(secret)}
	forms = append(forms, inHex, strings.ToUpper(inHex))
	forms = append(forms, wrapped(inHex, hexColumns)...)
	forms = append(forms, wrapped(base64At(base64.RawStdEncoding, secret, 0), base64Columns)...)
	for offset := range 3 {
		forms = append(forms,
			base64At(base64.RawStdEncoding, secret, offset),
			base64At(base64.RawURLEncoding, secret, offset))
	}
	for range 2 { // as it is said, and as what was said is quoted
		for _, form := range forms {
			for _, escapeHTML := range []bool{false, true} {
				escaped := jsonEscape(form, escapeHTML)
				forms = append(forms, escaped, strings.ReplaceAll(escaped, "/", `\/`))
			}
		}
		slices.Sort(forms)
		forms = slices.Compact(forms)
	}
	return oneLine(forms, atLeast)
}

// Columns at which programs break what they encode: base64 and xxd -p.
const (
	base64Columns = 76
	hexColumns    = 60
)

// wrapped returns the lines of an encoding that is broken at so many columns, but
// for a last one that could be part of anything.
func wrapped(encoded string, columns int) (lines []string) {
	if len(encoded) <= columns {
		return nil
	}
	for len(encoded) >= 16 {
		n := min(len(encoded), columns)
		lines = append(lines, encoded[:n])
		encoded = encoded[n:]
	}
	return lines
}

// lowerEscapes writes the escapes of a URL with small letters, as some programs do.
func lowerEscapes(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// oneLine replaces forms of several lines by those of their lines that are long
// enough to be told from other text, and not the frame of a PEM file.
func oneLine(forms []string, atLeast int) []string {
	list := forms[:0:0]
	for _, form := range forms {
		if !strings.ContainsAny(form, "\r\n") {
			list = append(list, form)
			continue
		}
		for line := range strings.FieldsFuncSeq(form, func(r rune) bool { return r == '\r' || r == '\n' }) {
			if len(line) >= atLeast && !strings.HasPrefix(line, "-----") {
				list = append(list, line)
			}
		}
	}
	return list
}

func jsonEscape(s string, escapeHTML bool) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(escapeHTML)
	_ = encoder.Encode(s)                                                  // a string always encodes
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n") // an escaped quote at the end stays
}

// base64At returns the characters that secret alone decides when it stands
// offset bytes (modulo 3) into what was encoded.
func base64At(encoding *base64.Encoding, secret string, offset int) string {
	encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", offset) + secret))
	first := (offset*8 + 5) / 6 // these share bits with what stands before
	last := (offset + len(secret)) * 8 / 6
	return encoded[first:last]
}

// find returns where the first form in data lies, with those that overlap it, or -1, -1. A mask is passed over.
func (m *Matcher) find(data []byte) (start, end int) {
	for from := 0; ; from = end {
		start, end = m.search(data[from:])
		if start < 0 {
			return -1, -1
		}
		start, end = from+start, from+end
		for at := start + 1; at < end; {
			first, last := m.search(data[at:min(len(data), end+len(m.forms[0]))])
			if first < 0 || at+first >= end {
				break
			}
			end, at = max(end, at+last), at+first+1
		}
		if string(data[start:end]) != Mask {
			return start, end
		}
	}
}

// Redact returns data with every form of the secrets replaced. Redacting the result again does not change it. Redact
// returns data itself, and allocates nothing, where there is none.
func (m *Matcher) Redact(data []byte) []byte {
	for { // a mask and what follows it may be a form in their turn
		start, end := m.find(data)
		if start < 0 {
			return data
		}
		var out []byte
		for start >= 0 {
			out = append(append(out, data[:start]...), Mask...)
			data = data[end:]
			start, end = m.find(data)
		}
		data = append(out, data...)
	}
}

// Text is Redact for strings.
func (m *Matcher) Text(s string) string { return string(m.Redact([]byte(s))) }

// partial returns the length of the longest end of data that begins a form.
func (m *Matcher) partial(data []byte) int {
	if len(m.forms) == 0 || len(data) == 0 || data[len(data)-1] == '\n' { // most chunks are whole events
		return 0
	}
	for at := max(0, len(data)-len(m.forms[0])+1); at < len(data); at++ {
		if slices.ContainsFunc(m.first[data[at]], func(form []byte) bool { return bytes.HasPrefix(form, data[at:]) }) {
			return len(data) - at
		}
	}
	return 0
}
