package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const (
	// Shorter keys are placeholders for servers that want none ("none",
	// "lm-studio"). Taking such a word out of an answer would corrupt it.
	minStreamSecret = 16
	// In an error a missing word does no harm.
	minErrorSecret = 6
)

// redactor finds secrets in their usual encodings: as they are, base64 and
// base64url at any offset within the encoded data, hex, URL- and JSON-escaped.
type redactor struct {
	forms  [][]byte // longest first, none empty, none with a line end
	search *searcher
}

// newRedactor returns a redactor for secrets, which have no line end. Those of
// fewer than atLeast bytes are not looked for.
func newRedactor(secrets []string, atLeast int) *redactor {
	var forms []string
	for _, secret := range secrets {
		if len(secret) >= atLeast {
			forms = append(forms, formsOf(secret)...)
		}
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	r := &redactor{}
	for _, form := range slices.Compact(forms) {
		r.forms = append(r.forms, []byte(form))
	}
	r.search = newSearcher(r.forms)
	return r
}

// formsOf returns the encodings of one secret, and each of them as it stands in
// a JSON string: what providers say is JSON. A key of letters, digits, '-' and '_'
// has few.
func formsOf(secret string) []string {
	inHex := hex.EncodeToString([]byte(secret))
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), inHex, strings.ToUpper(inHex)}
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
	return forms
}

func jsonEscape(s string, escapeHTML bool) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(escapeHTML)
	_ = encoder.Encode(s) // a string always encodes
	return strings.Trim(strings.TrimSuffix(b.String(), "\n"), `"`)
}

// base64At returns the characters that secret alone decides when it stands
// offset bytes (modulo 3) into what was encoded.
func base64At(encoding *base64.Encoding, secret string, offset int) string {
	encoded := encoding.EncodeToString([]byte(strings.Repeat("\x00", offset) + secret))
	first := (offset*8 + 5) / 6 // these share bits with what stands before
	last := (offset + len(secret)) * 8 / 6
	return encoded[first:last]
}

// redact returns data with every form of the secret replaced. It returns data
// itself, and allocates nothing, where there is none.
func (r *redactor) redact(data []byte) []byte {
	start, end := r.search.find(data)
	if start < 0 {
		return data
	}
	var out []byte
	for start >= 0 {
		out = append(append(out, data[:start]...), redacted...)
		data = data[end:]
		start, end = r.search.find(data)
	}
	return append(out, data...)
}

// text is redact for strings.
func (r *redactor) text(s string) string { return string(r.redact([]byte(s))) }

// partial returns the length of the longest end of data that begins a form.
func (r *redactor) partial(data []byte) int {
	longest := 0
	if len(data) == 0 || data[len(data)-1] == '\n' { // most chunks are whole events
		return 0
	}
	for _, form := range r.forms {
		tail := data[max(0, len(data)-len(form)+1):]
		for len(tail) > longest {
			at := bytes.IndexByte(tail, form[0])
			if at < 0 {
				break
			}
			tail = tail[at:]
			if bytes.HasPrefix(form, tail) {
				longest = max(longest, len(tail))
				break
			}
			tail = tail[1:]
		}
	}
	return longest
}

// scrubber redacts a stream. It holds back the end of a chunk only while that
// may be the beginning of the secret, so a whole event is never delayed: a
// secret has no line end.
type scrubber struct {
	redactor *redactor
	held     []byte
	joined   []byte
}

// next returns what can be sent on after chunk has arrived. The result is
// valid until the next call.
func (s *scrubber) next(chunk []byte) []byte {
	data := chunk
	if len(s.held) > 0 {
		s.joined = append(append(s.joined[:0], s.held...), chunk...)
		data = s.joined
	}
	data = s.redactor.redact(data)
	cut := len(data) - s.redactor.partial(data)
	s.held = append(s.held[:0], data[cut:]...)
	return data[:cut]
}

// rest returns what is held back when the stream has ended.
func (s *scrubber) rest() []byte { return s.held }
