package fetch

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"holon/internal/pattern"
	"holon/runner/workspace/git"
)

// Source is a directory in a git repository that another person may control.
type Source struct {
	URL  string // of the repository
	Ref  string // branch, tag or full commit id; "" for the default branch
	Path string // directory within, "" for the top

	tree []string // of a GitHub tree URL: segments of the ref, then of the path
}

var (
	scpLike = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-]`)
	refName = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$`)
)

// IsURL reports whether source is the URL of a repository rather than the path of a folder.
func IsURL(source string) bool {
	return strings.Contains(source, "://") || strings.Contains(source, "::") || scpLike().MatchString(source)
}

// Parse reads the URL of a repository, or a GitHub tree URL (https://github.com/OWNER/REPO/tree/REF/PATH). Allowed are
// https, ssh, also as user@host:path, file, and http to this machine. ref and path name what is fetched from a plain
// repository; both may be empty.
func Parse(source, ref, path string) (Source, error) {
	if ref != "" && (!refName().MatchString(ref) || strings.Contains(ref, "..") || len(ref) > 256) {
		return Source{}, invalid("--ref", fmt.Sprintf("%.100q is not the name of a branch, tag or commit", ref),
			"give one, such as main or v1.2.0")
	}
	if path = strings.Trim(path, "/"); path != "" {
		if err := git.CheckPath(path); err != nil {
			return Source{}, invalid("--path", fmt.Sprintf("%.100q is not a directory within a repository", path),
				"give a relative path without ..")
		}
	}
	r := Source{URL: source, Ref: ref, Path: path}
	if scpLike().MatchString(source) {
		return r, nil
	}
	u, err := url.Parse(source)
	if err != nil || len(source) > 2048 || strings.ContainsFunc(source, func(c rune) bool {
		return c <= ' ' || c == 0x7f
	}) {
		return Source{}, invalid("SOURCE", fmt.Sprintf("%.100q is not a URL", source), "give https://HOST/PATH")
	}
	if err := checkURL(u); err != nil {
		return Source{}, err
	}
	return r.github(u)
}

func invalid(param, message, hint string) error {
	return &git.Error{Code: git.CodeInvalidOption, Param: param, Message: message, Hint: hint}
}

// checkURL accepts the schemes that Parse names, without anything secret in the URL.
func checkURL(u *url.URL) error {
	if _, secret := u.User.Password(); secret || u.RawQuery != "" || u.Fragment != "" {
		return invalid("SOURCE", "the URL contains a password, a query or a fragment",
			"leave them out; a branch is given with --ref, and access by an ssh key")
	}
	if strings.HasPrefix(u.Hostname(), "-") {
		return invalid("SOURCE", fmt.Sprintf("%.100q is not the name of a host", u.Hostname()),
			"give https://HOST/PATH")
	}
	switch u.Scheme {
	case "https", "ssh":
		if u.Hostname() == "" {
			return invalid("SOURCE", "the URL has no host", "give https://HOST/PATH")
		}
	case "file":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return invalid("SOURCE", "the URL has no absolute path", "give file:///PATH")
		}
	case "http":
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return invalid("SOURCE", "http is not protected against reading and changing on the way", "use https")
		}
	default:
		return invalid("SOURCE", fmt.Sprintf("repositories are not fetched by %.40q", u.Scheme),
			"use https, ssh or file")
	}
	return nil
}

// github takes a GitHub tree URL apart. Only the repository knows where the ref ends and the path begins,
// since refs may contain slashes.
func (r Source) github(u *url.URL) (Source, error) {
	const form = "give https://github.com/OWNER/REPO/tree/REF/PATH"
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if u.Scheme != "https" || u.Host != "github.com" || len(parts) < 3 {
		return r, nil
	}
	if parts[2] != "tree" || len(parts) < 4 {
		return Source{}, invalid("SOURCE", "this is neither a repository nor a tree on GitHub", form)
	}
	if r.Ref != "" || r.Path != "" {
		return Source{}, invalid("SOURCE", "a tree URL names the ref and the path itself",
			"leave out --ref and --path, or give the repository's URL")
	}
	for _, part := range parts[3:] {
		if err := git.CheckPath(part); err != nil || !refName().MatchString(parts[3]) {
			return Source{}, invalid("SOURCE", "the tree URL contains an unsafe path", form)
		}
	}
	r.URL, r.tree = "https://github.com/"+parts[0]+"/"+strings.TrimSuffix(parts[1], ".git"), parts[3:]
	return r, nil
}

// scheme is the protocol by which git fetches.
func (r Source) scheme() string {
	if scheme, _, ok := strings.Cut(r.URL, "://"); ok {
		return scheme
	}
	return "ssh"
}
