package git

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRefName bounds a reference's name; a file system takes 255 bytes a part.
const maxRefName = 200

// CheckBranch returns why name can't be the name of a branch. It refuses what `git check-ref-format --branch`
// refuses, names that another program may take for an option or for something other than a branch, and
// characters that a terminal would not show unchanged, among them blanks, format characters and what is not UTF-8.
func CheckBranch(name string) error {
	why := branchFault(name)
	if why == "" {
		return nil
	}
	return &Error{Code: CodeInvalidOption, Param: "--branch",
		Message: fmt.Sprintf("%.100q can't be the name of a branch: it %s", name, why),
		Hint:    "use letters, digits and - _ / ., such as holon/my-change"}
}

// branchFault returns what is wrong with a branch's name, "" for nothing.
func branchFault(name string) string {
	switch {
	case name == "" || name == "@" || name == "HEAD":
		return "is not a name"
	case len(name) > maxRefName:
		return "is too long"
	case name[0] == '-':
		return "begins with a dash"
	case strings.HasPrefix(name, "refs/"):
		return "begins with refs/"
	case strings.Contains(name, "..") || strings.Contains(name, "@{"):
		return "has .. or @{"
	case strings.HasSuffix(name, "."):
		return "ends with a dot"
	case strings.ContainsFunc(name, func(c rune) bool { return c == ' ' || c == utf8.RuneError || !strconv.IsPrint(c) }),
		strings.ContainsAny(name, `~^:?*[\`):
		return "has a character that git or a terminal takes for another purpose"
	}
	for part := range strings.SplitSeq(name, "/") {
		if why := partFault(part); why != "" {
			return why
		}
	}
	return ""
}

// partFault does the same for one part of the name.
func partFault(part string) string {
	switch {
	case part == "":
		return "has an empty part"
	case part[0] == '.' || part[0] == '-':
		return "has a part that begins with a dot or a dash"
	case strings.HasSuffix(strings.ToLower(part), ".lock"):
		return "has a part that ends with .lock"
	}
	return ""
}
