// Package roots opens directories that something hostile may have replaced.
//
// os.OpenRoot opens what has the name before it looks whether that is a
// directory, and at a pipe without a writer it waits for ever, whatever the
// caller's context. Here only directories are opened at all.
package roots

import (
	"errors"
	"io/fs"
	"os"
)

// Open is os.OpenRoot, with an error for anything but a directory. A path that
// ends in a link is followed, as os.OpenRoot does.
func Open(path string) (*os.Root, error) {
	if path == "" {
		return nil, missing()
	}
	return os.OpenRoot(path + directory)
}

// OpenIn is root.OpenRoot in the same way. Links don't lead out of root.
func OpenIn(root *os.Root, path string) (*os.Root, error) {
	if path == "" {
		return nil, missing()
	}
	return root.OpenRoot(path + directory)
}

// directory makes the name before it one of the way rather than of the end,
// where the kernel accepts nothing but directories.
const directory = "/."

func missing() error { return &fs.PathError{Op: "open", Err: errors.New("the name is empty")} }
