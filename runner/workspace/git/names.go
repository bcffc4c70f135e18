package git

import (
	"fmt"
	"strings"

	"holon/internal/gitname"
)

// CheckPath says why a path of a tree must not be written to disk. Names are checked as git checks them for the file
// systems of other machines too, because the patch will be applied somewhere.
func CheckPath(path string) error {
	if path == "" || len(path) > gitname.MaxPath || path[0] == '/' || strings.IndexByte(path, 0) >= 0 {
		return &Error{Code: CodeUnsafePath, Param: path,
			Message: fmt.Sprintf("path %.200q is empty, absolute or too long", path)}
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || gitname.IsDotGit(name) {
			return &Error{Code: CodeUnsafePath, Param: path,
				Message: fmt.Sprintf("path %.200q has the component %q", path, name)}
		}
	}
	return nil
}
