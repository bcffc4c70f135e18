package access

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// hostPath finds what may be a path of the host, and forHost what only those who work on the host can do: routes of the
// API and names of files below a directory are neither.
var (
	hostPath = regexp.MustCompile(`(^|[^\w.<~-])~?/[\w.~@+-]`)
	forHost  = regexp.MustCompile(`\b(holon|docker|podman) [a-z]|\bmake image\b|(^|\s)--[a-z]|HOLON_[A-Z]`)
	ofAPI    = regexp.MustCompile(`/v1/`)
)

// Readable is what of the message and the hint of an error c may read. What may name a path of the host is for
// operators alone, and so are hints for them.
func (c Caller) Readable(message, hint string) (string, string) {
	if c.Operator {
		return message, hint
	}
	named := func(text string) bool { return hostPath.MatchString(ofAPI.ReplaceAllString(text, "")) }
	switch {
	case named(message):
		return "it can't be done on the host as things are there, and only an operator may read why", "ask the operator"
	case forHost.MatchString(message): // it has its remedy with it
		message, hint = forOthers(message, "; "), cmp.Or(hint, "ask the operator")
	}
	if hint != "" && (named(hint) || forHost.MatchString(hint)) {
		if hint = forOthers(hint, ", or "); named(hint) || forHost.MatchString(hint) {
			hint = "ask the operator"
		}
	}
	return message, hint
}

// forOthers is text without those of its parts that are for who works on the host; the first one stays as it is.
func forOthers(text, between string) string {
	parts := strings.Split(text, between)
	return strings.Join(append(parts[:1:1], slices.DeleteFunc(parts[1:], forHost.MatchString)...), between)
}
