package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"holon/internal/visible"
)

// maxSummary bounds the summary of a notification, in characters.
const maxSummary = 160

// Summary is what an operator sees first of a notification: its first line that
// is not empty, trimmed, fit for a terminal, cut at maxSummary.
func Summary(message string) string {
	for line := range strings.Lines(message) {
		line = strings.TrimSpace(strings.Map(printable, visible.Text(line)))
		if line != "" {
			return cut(line)
		}
	}
	return ""
}

// printable makes every space a plain one.
func printable(r rune) rune {
	if unicode.IsSpace(r) {
		return ' '
	}
	return r
}

func cut(s string) string {
	if utf8.RuneCountInString(s) <= maxSummary {
		return s
	}
	runes := []rune(s)
	return strings.TrimSpace(string(runes[:maxSummary-1])) + "…"
}

// SameText reports whether two texts say the same to an operator.
func SameText(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}
