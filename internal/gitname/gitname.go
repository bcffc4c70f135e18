// Package gitname knows the names that git refuses in a tree or a patch, on this machine or on one with another file
// system. It compares names only and touches no file.
package gitname

import (
	"strings"
	"unicode/utf8"
)

// MaxPath is Linux's bound on a path in one call, which git shares.
const MaxPath = 4095

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
