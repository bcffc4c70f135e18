package patch

import (
	"strconv"
	"strings"
)

// splitGit splits "a/x b/x". Paths may hold spaces, so equal halves come first.
func splitGit(s string) (old, new string) {
	if strings.HasPrefix(s, `"`) {
		if u, rest, ok := unquote(s); ok {
			rest = strings.TrimPrefix(rest, " ")
			if v, _, ok := unquote(rest); ok {
				return u, v
			}
			return u, rest
		}
	}
	if mid := len(s) / 2; len(s)%2 == 1 && s[mid] == ' ' && len(s) > 5 && s[1:mid] == s[mid+2:] {
		return s[:mid], s[mid+1:]
	}
	if i := strings.Index(s, " b/"); i > 0 {
		return s[:i], s[i+1:]
	}
	old, new, _ = strings.Cut(s, " ")
	return old, new
}

// unquote reads a path that git has quoted like a C string. Git writes no escape that Go does not have.
func unquote(s string) (path, rest string, ok bool) {
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil || quoted[0] != '"' {
		return "", s, false
	}
	path, err = strconv.Unquote(quoted)
	return path, s[len(quoted):], err == nil
}
