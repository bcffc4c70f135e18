package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/roots"
)

// digestOf returns "sha256:" and the hex digest of a skill's folder: of the
// sorted paths beneath it, whether a file is executable, and what files hold and
// links name. Times, owners and other permissions do not count, folders called
// .git and empty folders neither. A folder that [Stage] would refuse has none.
func digestOf(folder string) (string, error) {
	dir, err := roots.Open(folder)
	if err != nil {
		return "", noFolder(folder, err)
	}
	defer dir.Close()
	return digest(dir, folder)
}

// digest is digestOf of the root dir, which is called path.
func digest(dir *os.Root, path string) (string, error) {
	sum, files, size := sha256.New(), 0, int64(0)
	err := fs.WalkDir(dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		if files++; files > maxFiles {
			return fmt.Errorf("it has more than %d files", maxFiles)
		}
		if entry.Name() == ".git" {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch entry.Type() {
		case fs.ModeDir:
			return nil
		case fs.ModeSymlink:
			target, err := dir.Readlink(filepath.FromSlash(name))
			part(sum, "link", name, int64(len(target)))
			_, _ = io.WriteString(sum, target) // a hash takes everything
			return err
		case 0:
			n, err := digestFile(dir, name, sum, maxBytes-size)
			size += n
			return err
		}
		return fmt.Errorf("%q is a special file", name)
	})
	if err != nil {
		return "", &InvalidSkill{Code: codeUnsafe, Path: path, Message: "the folder has no digest",
			Hint: "install the skill again", Err: err}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

func digestFile(dir *os.Root, name string, sum hash.Hash, most int64) (int64, error) {
	f, info, err := roots.OpenFile(dir, filepath.FromSlash(name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if info.Size() > most {
		return 0, fmt.Errorf("%q is too large", name)
	}
	kind := "file"
	if info.Mode()&0o111 != 0 {
		kind = "program"
	}
	part(sum, kind, name, info.Size())
	n, err := io.Copy(sum, io.LimitReader(f, info.Size()))
	if err == nil && n != info.Size() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// part begins an entry of the digest. Lengths keep entries apart.
func part(sum hash.Hash, kind, name string, size int64) {
	fmt.Fprintf(sum, "%s %d %s %d\n", kind, len(name), name, size)
}
