package git

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckPath says why a path of a tree must not be written to disk. Names are
// checked as git checks them for the file systems of other machines too,
// because the patch will be applied somewhere.
func CheckPath(path string) error {
	if path == "" || len(path) > MaxPathLength || path[0] == '/' || strings.IndexByte(path, 0) >= 0 {
		return &Error{Code: CodeUnsafePath, Param: path,
			Message: fmt.Sprintf("path %.200q is empty, absolute or too long", path)}
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || IsDotGit(name) {
			return &Error{Code: CodeUnsafePath, Param: path,
				Message: fmt.Sprintf("path %.200q has the component %q", path, name)}
		}
	}
	return nil
}

// MaxPathLength is Linux's bound on a path in one call, which git shares.
const MaxPathLength = 4095

// IsDotGit reports whether some file system takes name for .git: by case, by
// characters that HFS+ ignores, by NTFS's trailing dots and spaces, streams
// and short names.
func IsDotGit(name string) bool {
	if strings.EqualFold(DropIgnorable(name), ".git") {
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

// IsDotGitmodules reports whether name may be .gitmodules somewhere. As a
// symbolic link git refuses it, and with it a whole patch.
func IsDotGitmodules(name string) bool {
	base, _, _ := strings.Cut(DropIgnorable(name), ":")
	base = strings.ToLower(strings.TrimRight(base, ". "))
	return base == ".gitmodules" || strings.HasPrefix(base, "gitmod~") || strings.HasPrefix(base, "gi7eba~")
}

// DropIgnorable removes the code points that HFS+ leaves out when it compares
// names. A name ends where it stops being UTF-8, as it does for git.
func DropIgnorable(name string) string {
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
