package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"holon/internal/pattern"
)

// changed is a file that differs from the index, and the blob that the index has of it.
type changed struct{ path, blob string }

// maxPointer bounds the pointer of a file of Git LFS, in bytes.
const maxPointer = 1024

// pointerText matches a pointer of Git LFS, which says what the file holds.
var pointerText = pattern.Lazy(
	`\Aversion https://(?:git-lfs|hawser)\.github\.com/spec/v\d\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n`)

// parseChanged reads a line of `git status --porcelain=v2` about a file whose content alone differs from the index.
func parseChanged(line string) (c changed, ok bool) {
	fields := strings.SplitN(line, " ", 9) // 1 .M N... 100644 100644 100644 <id of HEAD> <id of the index> <path>
	if len(fields) < 9 || fields[0] != "1" || fields[1] != ".M" || fields[4] != fields[5] {
		return c, false
	}
	return changed{path: fields[8], blob: fields[7]}, true
}

// loadPointers finds the files of Git LFS among those that differ from the index: they are unchanged if they are what
// their pointers say. No filter runs.
func (u *UserRepository) loadPointers(ctx context.Context, g Runner) error {
	pointers, err := readPointers(ctx, g, u.Status.changed)
	if err != nil {
		return fmt.Errorf("read pointers of Git LFS: %w", err)
	}
	for _, c := range u.Status.changed {
		found := pointerText().FindStringSubmatch(pointers[c.blob])
		if found == nil || !u.holds(c.path, found[2], found[1]) {
			u.Status.Dirty = true
			continue
		}
		u.Status.pointers = append(u.Status.pointers, c.path)
	}
	return ctx.Err()
}

// readPointers returns the small blobs of changed files, by their ids.
func readPointers(ctx context.Context, g Runner, files []changed) (map[string]string, error) {
	var ids strings.Builder
	for _, c := range files {
		ids.WriteString(c.blob + "\n")
	}
	if len(files) == 0 {
		return nil, nil
	}
	sizes, err := g.Run(ctx, strings.NewReader(ids.String()), "cat-file", "--batch-check")
	if err != nil {
		return nil, err
	}
	var small strings.Builder
	for line := range strings.Lines(string(sizes)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // it is missing
		}
		if n, err := strconv.Atoi(fields[2]); err == nil && n < maxPointer {
			small.WriteString(fields[0] + "\n")
		}
	}
	if small.Len() == 0 {
		return nil, nil
	}
	blobs, err := g.Run(ctx, strings.NewReader(small.String()), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	for len(blobs) > 0 {
		head, rest, _ := bytes.Cut(blobs, []byte("\n"))
		fields := strings.Fields(string(head))
		n := -1
		if len(fields) == 3 {
			n, err = strconv.Atoi(fields[2])
		}
		if err != nil || n < 0 || n >= len(rest) {
			return nil, errors.New("git's answer is cut off")
		}
		texts[fields[0]], blobs = string(rest[:n]), rest[n+1:]
	}
	return texts, nil
}

// holds reports whether a file has a size and a digest.
func (u *UserRepository) holds(path, size, digest string) bool {
	file, err := openIn(u.Top, path)
	if err != nil {
		return false
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || strconv.FormatInt(info.Size(), 10) != size {
		return false
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return err == nil && hex.EncodeToString(hash.Sum(nil)) == digest
}
