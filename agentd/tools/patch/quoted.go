package patch

import "strings"

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

// unquote reads a path that git has quoted like a C string.
func unquote(s string) (path, rest string, ok bool) {
	if len(s) < 2 || s[0] != '"' {
		return "", s, false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"':
			return b.String(), s[i+1:], true
		case c != '\\':
			b.WriteByte(c)
		case i+3 < len(s) && isOctal(s[i+1]) && isOctal(s[i+2]) && isOctal(s[i+3]):
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
		case i+1 < len(s):
			i++
			j := strings.IndexByte(`abfnrtv"\`, s[i])
			if j < 0 {
				return "", s, false
			}
			b.WriteByte("\a\b\f\n\r\t\v\"\\"[j])
		}
	}
	return "", s, false
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }
