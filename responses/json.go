package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON that is accepted from outside. Real
// requests stay below 30; the limit keeps recursive code within a small stack.
const maxDepth = 256

// marshal encodes v without HTML escaping: the wire carries source code, in which
// six bytes for every "<" would be waste.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// mustMarshal encodes a value made of strings and numbers only, for which
// encoding cannot fail.
func mustMarshal(v any) []byte {
	b, err := marshal(v)
	if err != nil {
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":"","code":"server_error"}}`)
	}
	return b
}

// CheckDepth refuses JSON nested deeper than maxDepth without decoding it.
func CheckDepth(data []byte) error { return checkShape(data, len(data)) }

// CheckShape refuses JSON nested deeper than maxDepth or with more than MaxValues
// values without decoding it. It is for text that is not trusted.
func CheckShape(data []byte) error { return checkShape(data, MaxValues) }

func checkShape(data []byte, most int) error {
	depth, values, inString := 0, 0, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		if inString {
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
			continue
		}
		switch c {
		case '"':
			inString = true
		case '{', '[':
			values++
			if depth++; depth > maxDepth {
				return Invalid("", CodeInvalidJSON, fmt.Sprintf("the JSON is nested deeper than %d levels", maxDepth))
			}
		case ',':
			values++
		case '}', ']':
			depth--
		}
	}
	if values > most {
		return Invalid("", CodeInvalidJSON, fmt.Sprintf("the JSON has more than %d values", most))
	}
	return nil
}

// AppendString appends s as a JSON string, as encoding/json writes it without
// HTML escaping. Invalid UTF-8 is replaced.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

// appendString appends s as a JSON string, byte for byte as encoding/json
// writes it without HTML escaping. It is the hot path of a delta: plain runs
// are copied whole, and nothing is allocated. It is one function because each case
// is a kind of character in one loop.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				dst = append(append(dst, s[start:i]...), `\ufffd`...)
				start = i + n
			case r == '\u2028' || r == '\u2029': // line ends to JavaScript
				dst = append(append(dst, s[start:i]...), `\u202`...)
				dst = append(dst, hex[r&15])
				start = i + n
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// isNull reports whether raw is absent or the JSON null.
func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}
