// Package durable replaces files so that a crash never shows half of one, and
// reads them back with a bound.
//
// WriteFile writes next to the target, syncs the data, renames over the target
// and syncs the directory. The invariant: at every instant, and after a kill
// or a power cut at any instant, the target is absent, the whole old file or
// the whole new file; once WriteFile has returned nil it is the new one.
//
// It does not promise an order between two callers writing the same path (the
// last rename wins), and a crash may leave a temporary file, which starts with
// TempPrefix and which the owner of the directory may delete at any time when
// no writer is alive. A target that is a symbolic link is replaced, never
// written through.
package durable

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// TempPrefix begins the name of every temporary file this package creates.
const TempPrefix = ".tmp-"

// Private is the mode of files for the user of this process, and for its group
// where the umask says so.
const Private fs.FileMode = 0o660

// WriteFile makes path hold exactly data, durably, with permission bits perm; the
// umask applies to Private alone. The parent directory must exist. On error the
// target is as it was and the temporary file is gone; the one exception is an
// error from the last step, the sync of the directory, after which the new
// content is in place but may not survive a power cut.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	err := replace(path, data, perm, (*os.File).Sync)
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Replace is WriteFile for a file of mode Private that something else makes durable:
// a reader, also after a kill, finds the old or the new file, but a power cut can
// leave anything.
func Replace(path string, data []byte) error {
	return replace(path, data, Private, func(*os.File) error { return nil })
}

func replace(path string, data []byte, perm fs.FileMode, finish func(*os.File) error) error {
	file, err := createTemp(filepath.Dir(path), perm)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = file.Write(data)
	if err == nil && perm != Private {
		err = file.Chmod(perm.Perm())
	}
	if err == nil {
		err = finish(file)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = syscall.Rename(file.Name(), path)
	}
	if err != nil {
		// A file that cannot be removed is named TempPrefix and harmless.
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

// Create creates a regular file, which must not exist yet, with mode perm less the umask. Unlike
// os.OpenFile it does not offer the file to the poller of the runtime, which takes
// no regular files: that would be four system calls for nothing.
func Create(path string, flags int, perm fs.FileMode) (*os.File, error) {
	for {
		fd, err := syscall.Open(path, flags|os.O_CREATE|os.O_EXCL|syscall.O_CLOEXEC, uint32(perm))
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// SyncDir makes the names in the directory path durable: entries created,
// renamed or removed before the call survive a power cut after it.
func SyncDir(path string) error {
	// O_DIRECTORY: a pipe in its place would be waited at for ever.
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = dir.Sync()
	if closeErr := dir.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", path, err)
	}
	return nil
}

// createTemp opens a file that did not exist. It is widened only after the data
// is in, so that a secret is never readable on the way.
func createTemp(dir string, perm fs.FileMode) (*os.File, error) {
	for {
		var random [8]byte
		rand.Read(random[:]) // never fails: the runtime aborts instead
		name := filepath.Join(dir, TempPrefix+hex.EncodeToString(random[:]))
		if perm != Private {
			perm = 0o600
		}
		file, err := Create(name, os.O_WRONLY, perm)
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// Sweep removes the temporary files that a crash left in dir: the regular files
// that are named as this package, or os.CreateTemp with TempPrefix, names them.
// Call it only while no process writes there. A directory that is not there holds none.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for temporary files: %w", err)
	}
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), TempPrefix)
		if !ok || !e.Type().IsRegular() || random == "" || strings.Trim(random, "0123456789abcdef") != "" {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a temporary file: %w", err)
		}
	}
	return nil
}
