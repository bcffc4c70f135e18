package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxRefName bounds a reference's name; a file system takes 255 bytes a part.
const maxRefName = 200

// CheckBranch returns why name can't be the name of a branch. It refuses what `git check-ref-format --branch`
// refuses, names that another program may take for an option or for something other than a branch, and
// characters that a terminal would not show unchanged, among them blanks, format characters and what is not UTF-8.
func CheckBranch(name string) error {
	unclear := func(c rune) bool { return c == ' ' || c == utf8.RuneError || !strconv.IsPrint(c) }
	misread := func(part string) bool {
		return strings.HasPrefix(part, "-") || strings.HasSuffix(strings.ToLower(part), ".lock")
	}
	if name != "HEAD" && len(name) <= maxRefName && !strings.HasPrefix(name, "refs/") &&
		!strings.ContainsFunc(name, unclear) && !slices.ContainsFunc(strings.Split(name, "/"), misread) &&
		plumbing.NewBranchReferenceName(name).Validate() == nil {
		return nil
	}
	return &Error{Code: CodeInvalidOption, Param: "--branch",
		Message: fmt.Sprintf("%.100q can't be the name of a branch", name),
		Hint:    fmt.Sprintf("use at most %d letters, digits and - _ / ., such as holon/my-change", maxRefName)}
}
