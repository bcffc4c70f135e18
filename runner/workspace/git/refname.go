package git

import (
	"fmt"
	"strings"
)

// maxRefName bounds a reference's name; a file system takes 255 bytes a part.
const maxRefName = 200

// CheckBranch returns why name can't be the name of a branch. It refuses what `git check-ref-format --branch`
// refuses, names that another program may take for an option or for something other than a branch, and
// characters that a terminal woulduld not show unchanged.
func CheckBranch(name string) error {
	bad := func(why string) error {
		return &Error{Code: CodeInvalidOption, Param: "--branch",
			Message: fmt.Sprintf("%.100q can't be the name of a branch: it %s", name, why),
			Hint:    "use letters, digits and - _ / ., such as holon/my-change"}
	}
	switch {
	case name == "" || name == "@" || name == "HEAD":
		return bad("is not a name")
	case len(name) > maxRefName:
		return bad("is too long")
	case name[0] == '-':
		return bad("begins with a dash")
	case strings.HasPrefix(name, "refs/"):
		return bad("begins with refs/")
	case strings.Contains(name, "..") || strings.Contains(name, "@{"):
		return bad("has .. or @{")
	case strings.HasSuffix(name, "."):
		return bad("ends with a dot")
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return bad("has a character that git or a terminal takes for another purpose")
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return bad("has an empty part")
		case part[0] == '.' || part[0] == '-':
			return bad("has a part that begins with a dot or a dash")
		case strings.HasSuffix(strings.ToLower(part), ".lock"):
			return bad("has a part that ends with .lock")
		}
	}
	return nil
}
