package fetch

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"holon/runner/workspace/git"
)

// Remote is a place in a git repository that somebody else may control.
type Source struct {
	URL  string // of the repository
	Ref  string // branch, tag or full commit id; "" for the default branch
	Path string // directory within, "" for the top

	tree []string // of a GitHub tree URL: segments of the ref, then of the path
}

var (
	scpLike = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-]`)
	refName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$`)
)

// IsRemote reports whether source names a repository rather than a folder.
func IsURL(source string) bool {
	return strings.Contains(source, "://") || strings.Contains(source, "::") || scpLike.MatchString(source)
}

// ParseRemote reads the URL of a repository, or a GitHub tree URL
// (https://github.com/OWNER/REPO/tree/REF/PATH). Allowed are https, ssh, also as
// user@host:path, file, and http to this machine. ref and path, each may be "",
// say what is wanted of a plain repository.
func Parse(source, ref, path string) (Source, error) {
	bad := func(param, message, hint string) (Source, error) {
		return Source{}, &git.Error{Code: git.CodeInvalidOption, Param: param, Message: message, Hint: hint}
	}
	if ref != "" && (!refName.MatchString(ref) || strings.Contains(ref, "..") || len(ref) > 256) {
		return bad("--ref", fmt.Sprintf("%.100q is no name of a branch, tag or commit", ref),
			"give one, such as main or v1.2.0")
	}
	if path = strings.Trim(path, "/"); path != "" {
		if err := git.CheckPath(path); err != nil {
			return bad("--path", fmt.Sprintf("%.100q is no directory within a repository", path),
				"give a relative path without ..")
		}
	}
	r := Source{URL: source, Ref: ref, Path: path}
	if scpLike.MatchString(source) {
		return r, nil
	}
	u, err := url.Parse(source)
	if err != nil || len(source) > 2048 || strings.ContainsFunc(source, func(c rune) bool {
		return c <= ' ' || c == 0x7f
	}) {
		return bad("SOURCE", fmt.Sprintf("%.100q is no URL", source), "give https://HOST/PATH")
	}
	if _, secret := u.User.Password(); secret || u.RawQuery != "" || u.Fragment != "" {
		return bad("SOURCE", "the URL holds a password, a query or a fragment",
			"leave them out; a branch is given with --ref, and access by an ssh key")
	}
	if strings.HasPrefix(u.Hostname(), "-") {
		return bad("SOURCE", fmt.Sprintf("%.100q is no name of a host", u.Hostname()), "give https://HOST/PATH")
	}
	switch u.Scheme {
	case "https", "ssh":
		if u.Hostname() == "" {
			return bad("SOURCE", "the URL names no host", "give https://HOST/PATH")
		}
	case "file":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return bad("SOURCE", "the URL names no absolute path", "give file:///PATH")
		}
	case "http":
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return bad("SOURCE", "http shows and trusts everybody on the way", "use https")
		}
	default:
		return bad("SOURCE", fmt.Sprintf("repositories are not fetched by %.40q", u.Scheme), "use https, ssh or file")
	}
	return r.github(u)
}

// github takes a GitHub tree URL apart. Where the ref ends and the path begins
// only the repository knows, since refs may hold slashes.
func (r Source) github(u *url.URL) (Source, error) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if u.Scheme != "https" || u.Host != "github.com" || len(parts) < 3 {
		return r, nil
	}
	bad := func(message, hint string) (Source, error) {
		return Source{}, &git.Error{Code: git.CodeInvalidOption, Param: "SOURCE", Message: message, Hint: hint}
	}
	if parts[2] != "tree" || len(parts) < 4 {
		return bad("this is no repository and no tree on GitHub", "give https://github.com/OWNER/REPO/tree/REF/PATH")
	}
	if r.Ref != "" || r.Path != "" {
		return bad("a tree URL says the ref and the path itself",
			"leave out --ref and --path, or give the repository's URL")
	}
	for _, part := range parts[3:] {
		if err := git.CheckPath(part); err != nil || !refName.MatchString(parts[3]) {
			return bad("the tree URL holds an unsafe path", "give https://github.com/OWNER/REPO/tree/REF/PATH")
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
