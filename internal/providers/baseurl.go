package providers

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"holon/internal/pattern"
	"holon/internal/unixsocket"
)

// plainPath is a path without escapes and empty parts.
var plainPath = pattern.Lazy(`^(/[a-zA-Z0-9_.~:-]+)+$`)

// ParseBaseURL takes the URL of an endpoint apart: https://host/path, or unix:///socket:/path. It returns the URL
// without a slash at its end and, for a Unix socket, the socket's path. fault says what is wrong, "" for nothing, and
// never shows the URL, which may hold a password.
func ParseBaseURL(raw string) (base, socket, fault string) {
	var prefix string
	if rest, ok := strings.CutPrefix(raw, "unix://"); ok {
		socket, prefix, _ = strings.Cut(rest, ":")
		base = "http://localhost"
		if !filepath.IsAbs(socket) || strings.ContainsRune(socket, 0) || len(socket) > unixsocket.MaxPath {
			return "", "", "names no socket by a short absolute path"
		}
	} else {
		u, err := url.Parse(raw)
		if err != nil {
			return "", "", "can't be read"
		}
		if fault := faultOf(u); fault != "" {
			return "", "", fault
		}
		base, prefix = u.Scheme+"://"+u.Host, u.EscapedPath()
	}
	prefix = strings.TrimRight(prefix, "/")
	if prefix != "" && (!plainPath().MatchString(prefix) || path.Clean(prefix) != prefix) {
		return "", "", "has a path that is not plain"
	}
	return base + prefix, socket, ""
}

func faultOf(u *url.URL) string {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "is not an http, https or unix URL"
	case u.Hostname() == "":
		return "names no host"
	case u.User != nil:
		return "holds a user name or password"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "has a query or a fragment"
	}
	return ""
}
