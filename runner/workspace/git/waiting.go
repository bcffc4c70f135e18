package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holon/internal/visible"
)

// openedFiles are the files that git opens in a working tree by their names. It would wait for the writer of a pipe.
var openedFiles = []string{".gitattributes", ".gitignore", ".gitmodules"}

// findPipe looks for a file of openedFiles that is special, until ctx ends. What it may not enter, git may not either.
func findPipe(ctx context.Context, top string) (found error) {
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil:
			return nil
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case slices.Contains(openedFiles, entry.Name()) && special(entry.Type()):
			found = isSpecial(path)
			return fs.SkipAll
		}
		return nil
	})
	return errors.Join(found, err)
}

func special(mode fs.FileMode) bool { return mode&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 }

func isSpecial(path string) *Error {
	return &Error{Code: CodeBrokenRepository, Param: path, Message: visible.Quoted(path) +
		" is not a regular file, and git would wait for it", Hint: "remove it"}
}

// CheckOpened refuses a special file in one of the directories of a working tree that git would open for their files.
func CheckOpened(top string, directories []string) error {
	for _, dir := range directories {
		for _, name := range openedFiles {
			path := filepath.Join(top, dir, name)
			if info, err := os.Lstat(path); err == nil && special(info.Mode()) {
				return isSpecial(path)
			}
		}
	}
	return nil
}
