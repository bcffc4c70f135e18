package rules

import (
	"strings"

	"holon/internal/visible"
)

// maxSummary bounds the summary of a notification, in characters.
const maxSummary = 160

// Summary is what an operator sees first of a notification: its first line that
// is not empty, fit for a terminal, cut at maxSummary.
func Summary(message string) string {
	for line := range strings.Lines(message) {
		line = strings.Join(strings.Fields(visible.Text(line)), " ")
		if runes := []rune(line); len(runes) > maxSummary {
			return strings.TrimSpace(string(runes[:maxSummary-1])) + "…"
		}
		if line != "" {
			return line
		}
	}
	return ""
}

// SameText reports whether two texts say the same to an operator.
func SameText(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}
