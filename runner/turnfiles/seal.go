package turnfiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// maxSums bounds the file of Seal in bytes.
const maxSums = 64 << 20

// Seal keeps in file, a line each, the digest of every response that a session has stored and file does not name yet.
// The host does so when it has seen a turn end whose commands could write there.
func Seal(sessionDir, file string) error {
	sums, err := readSums(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var lines []byte
	err = eachResponse(sessionDir, func(dir *os.Root, name string) (err error) {
		if sums[name] == "" && !strings.Contains(name, "\n") { // which a command made up
			lines, err = appendSum(lines, dir, name)
		}
		return err
	})
	if err == nil {
		err = appendSums(file, lines, true)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(file))
	}
	return err
}

// SealOne is Seal for one response, which is left out if it is not stored. With sync the digest survives a power cut.
func SealOne(sessionDir, file, responseID string, sync bool) error {
	if err := responses.CheckID("response_id", responseID); err != nil {
		return err
	}
	dir, err := openState(sessionDir, turns.ResponsesDir)
	if err != nil {
		return ignoreMissing(err)
	}
	defer dir.Close()
	lines, err := appendSum(nil, dir, responseID+".ndjson")
	if err != nil {
		return ignoreMissing(err)
	}
	return appendSums(file, lines, sync)
}

// appendSum appends the line of a response, in the form of sha256sum, behind a line end: what is before may be torn.
func appendSum(lines []byte, dir *os.Root, name string) ([]byte, error) {
	sum, err := digest(dir, name)
	return fmt.Appendf(lines, "\n%s  %s", sum, name), err
}

func appendSums(file string, lines []byte, sync bool) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(lines); err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
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

// readSums reads the digests by name; the first of a name counts.
func readSums(file string) (map[string]string, error) {
	data, err := durable.ReadFile(file, maxSums)
	if err != nil {
		return nil, fmt.Errorf("read the digests of stored responses: %w", err)
	}
	sums := make(map[string]string)
	for line := range bytes.Lines(data) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), "  ")
		if ok && len(sum) == hex.EncodedLen(sha256.Size) && sums[name] == "" {
			sums[name] = sum
		}
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
