package pattern

import (
	"fmt"
	"regexp"
	"strings"

	"holon/internal/visible"
)

// Glob returns an expression for the paths that a pattern fits: * is any part of a name, ** any directories, {a,b} one
// of both. A pattern fits a path, or what follows a directory of it; one that begins with / the whole path.
func Glob(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(translate(pattern))
	if err != nil || strings.ContainsAny(pattern, `[]\`) || strings.Count(pattern, "{") != strings.Count(pattern, "}") {
		return nil, fmt.Errorf("%q is not a pattern", visible.OneLine(pattern, 100))
	}
	return re, nil
}

// translate makes a regular expression of a pattern.
func translate(pattern string) string {
	var b strings.Builder
	b.WriteString(`^(?s:`)
	if rest, whole := strings.CutPrefix(pattern, "/"); whole {
		pattern = rest
	} else {
		b.WriteString(`(?:.*/)?`)
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '{':
			b.WriteString(`(?:`)
		case c == '}':
			b.WriteByte(')')
		case c == ',' && strings.Count(pattern[:i], "{") > strings.Count(pattern[:i], "}"):
			b.WriteByte('|')
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteString(`)$`)
	return b.String()
}
