package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// placeholder matches our placeholders. Other text in braces, such as templates of
// other tools, is unchanged.
var placeholder = regexp.MustCompile(`\{\{[a-z_]+\}\}`)

// maxFill bounds the value of one placeholder.
const maxFill = 16 << 10

// fills are the values of the placeholders in one round.
type fills struct{ output, user, said, round string }

// checkPlaceholders refuses misspelt placeholders.
func checkPlaceholders(path, text string) error {
	for _, p := range placeholder.FindAllString(text, -1) {
		switch p {
		case "{{last_output}}", "{{last_user}}", "{{last_said}}", "{{round}}":
		default:
			return fmt.Errorf("%s: %s is not a placeholder; there are {{last_output}}, {{last_user}}, {{last_said}} "+
				"and {{round}}. To say it literally, put spaces inside the braces", path, excerpt(p))
		}
	}
	return nil
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
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		switch p {
		case "{{last_output}}":
			return encode(f.output)
		case "{{last_user}}":
			return encode(f.user)
		case "{{last_said}}":
			return encode(f.said)
		case "{{round}}":
			return f.round
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
	return fills{output: clip(output), user: clip(v.user), said: clip(v.said), round: strconv.Itoa(number)}
}

func clip(s string) string {
	if len(s) > maxFill {
		s = s[:maxFill] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
