package workspace

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// checkPath says why a path of a tree must not be written to disk. Names are
// checked as git checks them for the file systems of other machines too,
// because the patch will be applied somewhere.
func checkPath(path string) error {
	if path == "" || len(path) > maxPathLength || path[0] == '/' || strings.IndexByte(path, 0) >= 0 {
		return &Error{Code: CodeUnsafePath, Param: path,
			Message: fmt.Sprintf("path %.200q is empty, absolute or too long", path)}
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || isDotGit(name) {
			return &Error{Code: CodeUnsafePath, Param: path,
				Message: fmt.Sprintf("path %.200q has the component %q", path, name)}
		}
	}
	return nil
}

// maxPathLength is Linux's bound on a path in one call, which git shares.
const maxPathLength = 4095

// isDotGit reports whether some file system takes name for .git: by case, by
// characters that HFS+ ignores, by NTFS's trailing dots and spaces, streams
// and short names.
func isDotGit(name string) bool {
	if strings.EqualFold(dropIgnored(name), ".git") {
		return true
	}
	for part := range strings.SplitSeq(name, `\`) {
		base, _, _ := strings.Cut(part, ":")
		base = strings.TrimRight(base, ". ")
		if strings.EqualFold(base, ".git") || strings.EqualFold(base, "git~1") {
			return true
		}
	}
	return false
}

// isDotGitmodules reports whether name may be .gitmodules somewhere. As a
// symbolic link git refuses it, and with it a whole patch.
func isDotGitmodules(name string) bool {
	base, _, _ := strings.Cut(dropIgnored(name), ":")
	base = strings.ToLower(strings.TrimRight(base, ". "))
	return base == ".gitmodules" || strings.HasPrefix(base, "gitmod~") || strings.HasPrefix(base, "gi7eba~")
}

// isLeftover reports whether name is one that the patch tool gives to files
// while it commits a patch: .holon-<12 hex digits>-<number>. A tool killed in
// between leaves them behind.
func isLeftover(name string) bool {
	rest, ok := strings.CutPrefix(name, ".holon-")
	id, number, two := strings.Cut(rest, "-")
	return ok && two && len(id) == 12 && strings.Trim(id, "0123456789abcdef") == "" &&
		number != "" && strings.Trim(number, "0123456789") == ""
}

// dropIgnored removes the code points that HFS+ leaves out when it compares
// names. A name ends where it stops being UTF-8, as it does for git.
func dropIgnored(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return name // nearly every name; a stray byte counts as U+FFFD
	}
	kept := make([]byte, 0, len(name))
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == utf8.RuneError && size <= 1, r == 0xfffe, r == 0xffff:
			return string(kept)
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		default:
			kept = append(kept, name[i:i+size]...)
		}
		i += size
	}
	return string(kept)
}
