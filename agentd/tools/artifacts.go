package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"holon/internal/redact"
)

// Artifact is a file that a result refers to by its index. The path is relative
// to the turn's output directory: tools/<call>/<name>.
type Artifact struct {
	Path string `json:"path"`
}

// Artifacts is the place for the files of one call. Its directory is chosen when
// the first name is reserved and made with the first file, since most calls
// leave none. A nil or placeless Artifacts keeps nothing. It is not safe for
// concurrent use.
type Artifacts struct {
	logDir  string
	callID  string
	disk    disk        // nil for no bound
	secrets *redact.Set // nil for none
	dir     string      // name below logDir once it is chosen
	list    []Artifact
}

// ErrNoSpace reports that the files of the turn may take no more of the disk.
var ErrNoSpace = errors.New("the turn's files may take no more of the disk")

// newArtifacts returns the place for call callID below logDir, the turn's tools/ directory. callID may be anything.
// Written bytes are taken from disk, unless that is nil.
func newArtifacts(logDir, callID string, disk disk) *Artifacts {
	return &Artifacts{logDir: logDir, callID: callID, disk: disk}
}

// Reserve returns the absolute path at which the caller may create name, or ""
// when nothing is kept. The caller makes its directory, in one that exists. It
// adds no artifact; Add does.
func (a *Artifacts) Reserve(name string) (string, error) {
	if a == nil || a.logDir == "" {
		return "", nil
	}
	if !plainName(name) {
		return "", fmt.Errorf("artifact name %q is not a plain file name", name)
	}
	if err := a.choose(); err != nil {
		return "", fmt.Errorf("choose the directory of call %s: %w", dirName(a.callID), err)
	}
	return filepath.Join(a.logDir, a.dir, name), nil
}

// Add lists the reserved file name and returns its index.
func (a *Artifacts) Add(name string) int {
	a.list = append(a.list, Artifact{Path: path.Join(filepath.Base(a.logDir), a.dir, name)})
	return len(a.list) - 1
}

// List returns what was added, in order; never nil.
func (a *Artifacts) List() []Artifact {
	if a == nil || a.list == nil {
		return []Artifact{}
	}
	return a.list
}

// size is the number of bytes of what was added. A file that is gone has none.
func (a *Artifacts) size() (n int64) {
	for _, artifact := range a.List() {
		if info, err := os.Lstat(filepath.Join(filepath.Dir(a.logDir), artifact.Path)); err == nil {
			n += info.Size()
		}
	}
	return n
}

// choose finds a name that no other call has: a model that uses an id twice does
// not get to overwrite what the first call left.
func (a *Artifacts) choose() error {
	if a.dir != "" {
		return nil
	}
	base := dirName(a.callID)
	for n := 1; n <= 1000; n++ {
		dir := base
		if n > 1 {
			dir += "-" + strconv.Itoa(n)
		}
		_, err := os.Lstat(filepath.Join(a.logDir, dir))
		if errors.Is(err, fs.ErrNotExist) {
			a.dir = dir
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%q is taken", base)
}

// dirName makes a file name of an untrusted id: the id itself where it is one
// already, otherwise a digest.
func dirName(id string) string {
	if plainName(id) && len(id) <= 80 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:8])
}

func plainName(s string) bool {
	if s == "" || len(s) > 120 || s[0] == '.' || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

// Write keeps data as name and returns its index, or nil if artifacts are not kept. On an error, ErrNoSpace included,
// nothing of it is kept; the result has to say so, but the call does not fail for that.
func (a *Artifacts) Write(name string, data []byte) (_ *int, err error) {
	path, err := a.Reserve(name)
	if err != nil || path == "" {
		return nil, err
	}
	data = a.secrets.Bytes(data)
	if a.disk != nil {
		size := int64(len(data))
		got := a.disk.Take(size)
		if got < size {
			a.disk.Give(got)
			return nil, ErrNoSpace
		}
		defer func() {
			if err != nil {
				a.disk.Give(size)
			}
		}()
	}
	if err := os.Mkdir(filepath.Dir(path), 0o775); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the directory of call %s: %w", dirName(a.callID), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o664)
	if err != nil {
		return nil, fmt.Errorf("create artifact: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // half of it would pass for the whole
		return nil, fmt.Errorf("write artifact: %w", err)
	}
	index := a.Add(name)
	return &index, nil
}
