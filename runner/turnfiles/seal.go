package turnfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/durable"
	"holon/responses/turns"
)

// maxSums bounds the file of Seal in bytes.
const maxSums = 64 << 20

// Seal keeps in file the digest of each response that a session has stored and file does not name yet. The host does so
// when it has seen a turn end whose commands could write there.
func Seal(sessionDir, file string) error {
	sums, err := readSums(file)
	if errors.Is(err, fs.ErrNotExist) {
		sums, err = make(map[string]string), nil
	}
	if err != nil {
		return err
	}
	err = eachResponse(sessionDir, func(dir *os.Root, name string) (err error) {
		if sums[name] == "" {
			sums[name], err = digest(dir, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	data, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	return durable.WriteFile(file, data, 0o600)
}

// Unseal removes the stored responses of a session that Seal never saw, unless they are kept, and agentd's journal,
// which could bring them back. It names one that is not as Seal saw it; "" for none. Where there is no file it does
// nothing.
func Unseal(sessionDir, file string, keep bool) (changed string, err error) {
	sums, err := readSums(file)
	if err != nil {
		return "", ignoreMissing(err)
	}
	if !keep && os.RemoveAll(filepath.Join(sessionDir, "state", "journal")) != nil {
		return "journal", nil
	}
	err = eachResponse(sessionDir, func(dir *os.Root, name string) error {
		if sums[name] == "" {
			if keep {
				return nil
			}
			return dir.RemoveAll(name)
		}
		if is, err := digest(dir, name); err != nil || is != sums[name] {
			changed = name
		}
		return nil
	})
	if err != nil { // there is something else in the place of the directory
		changed = turns.ResponsesDir
	}
	return changed, nil
}

func readSums(file string) (sums map[string]string, err error) {
	data, err := durable.ReadFile(file, maxSums)
	if err == nil {
		err = json.Unmarshal(data, &sums)
	}
	if err != nil {
		return nil, fmt.Errorf("read the digests of stored responses: %w", err)
	}
	return sums, nil
}

// eachResponse calls each for the file of every stored response.
func eachResponse(sessionDir string, each func(dir *os.Root, name string) error) error {
	dir, err := openState(sessionDir, turns.ResponsesDir)
	if err != nil {
		return ignoreMissing(err)
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := each(dir, e.Name()); err != nil {
			return fmt.Errorf("look at the stored response %s: %w", e.Name(), err)
		}
	}
	return nil
}

func digest(dir *os.Root, name string) (string, error) {
	in, err := openReadable(dir, name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	size, err := unmarked(in)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(in, 0, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// unmarked is the size of a stored response without the marks at its end that deletions of others leave.
func unmarked(in *os.File) (size int64, err error) {
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	mark := make([]byte, len(turns.ContinuedMark))
	for size = info.Size(); size > int64(len(mark)); size -= int64(len(mark)) {
		if _, err := in.ReadAt(mark, size-int64(len(mark))); err != nil {
			return 0, err
		}
		if string(mark) != turns.ContinuedMark {
			break
		}
	}
	return size, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
