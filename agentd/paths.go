package agentd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/responses"
)

// confine returns the path that a caller named in param, made safe: absolute,
// below root (or root itself), and reached without any symbolic link that
// leaves root. The directory need not exist yet. A process that can write below
// root could still swap a component later, so files there are opened with os.Root
// or O_NOFOLLOW as well; this check gives the caller a clear answer.
func confine(param, root, path string) (string, error) {
	outside := func() error {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodePathOutsideRoot, Param: param,
			Message: fmt.Sprintf("%s must lie under %s", param, root),
			Hint:    "choose a directory there, or leave the field out for the default"}
	}
	if strings.ContainsRune(path, 0) {
		return "", responses.Invalid(param, responses.CodeInvalidValue, param+" holds a NUL byte")
	}
	if len(path) > 4096 {
		return "", responses.Invalid(param, responses.CodeInvalidValue, param+" is longer than 4096 bytes")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	path = filepath.Clean(path)
	if !under(root, path) {
		return "", outside()
	}
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeInvalidValue, Param: param,
			Message: fmt.Sprintf("the server has no directory %s", root), Hint: "mount or create it", Cause: err}
	}
	real, err := evalExisting(path)
	if err != nil {
		return "", responses.Invalid(param, responses.CodeInvalidValue,
			fmt.Sprintf("%s cannot be resolved: %v", param, unwrapPath(err)))
	}
	if !under(realRoot, real) {
		return "", outside()
	}
	return real, nil
}

// under reports whether path is root or lies below it. Both must be clean.
func under(root, path string) bool {
	return path == root || root == "/" || strings.HasPrefix(path, root+"/")
}

// evalExisting resolves the links of the longest part of path that exists and
// appends the rest.
func evalExisting(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if _, lerr := os.Lstat(path); lerr == nil {
		return "", fmt.Errorf("%s is a link to nothing", filepath.Base(path))
	}
	parent, err := evalExisting(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(path)), nil
}

// unwrapPath drops the path from an error of the os package: the caller knows it.
func unwrapPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
