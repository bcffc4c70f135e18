package scripted

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"holon/internal/scenario"
)

// maxFill bounds the value of one placeholder.
const maxFill = 16 << 10

// fills are the values of the placeholders in one round.
type fills struct{ output, user, interjected, round string }

// value returns the value of a placeholder: of one with a regular expression its first match, "" when there is none.
func (f fills) value(p string) (value string, known bool) {
	name, pattern, part := strings.Cut(strings.Trim(p, "{}"), ":")
	value, known = f.named(name)
	if !part || !known {
		return value, known
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", false // the check of the file has refused it
	}
	return re.FindString(value), true
}

func (f fills) named(name string) (value string, known bool) {
	value, known = map[string]string{"last_output": f.output, "last_user": f.user, "last_said": f.interjected,
		"round": f.round}[name]
	return value, known
}

// fill replaces the placeholders of a plain text.
func (f fills) fill(text string) string { return f.replace(text, func(s string) string { return s }) }

// fillJSON replaces the placeholders of a JSON text, where they stand inside
// strings.
func (f fills) fillJSON(text string) string {
	return f.replace(text, func(s string) string {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(s) != nil {
			return "" // a string always has a JSON form
		}
		return strings.TrimSuffix(b.String(), "\"\n")[1:]
	})
}

// replace makes one pass, so that values are not expanded again.
func (f fills) replace(text string, encode func(string) string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return scenario.Placeholder().ReplaceAllStringFunc(text, func(p string) string {
		if value, known := f.value(p); known {
			return encode(value)
		}
		return p
	})
}

// texts returns the placeholders' values in a round.
func (v view) texts(number int) fills {
	output := ""
	if len(v.calls) > 0 {
		output = v.calls[len(v.calls)-1].output
	}
	return fills{output: clip(output), user: clip(v.user), interjected: clip(v.interjected), round: strconv.Itoa(number)}
}

func clip(s string) string {
	if len(s) > maxFill {
		s = s[:maxFill] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
