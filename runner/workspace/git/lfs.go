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

// Bounds of pointers of files of Git LFS, in bytes: of one, and of all blobs that are looked at.
const (
	maxPointer  = 1024
	maxPointers = 64 << 20
)

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
	blobs := make([]string, len(u.Status.changed))
	for i, c := range u.Status.changed {
		blobs[i] = c.blob
	}
	pointers, err := g.Pointers(ctx, blobs)
	if err != nil {
		return err
	}
	for _, c := range u.Status.changed {
		if p, ok := pointers[c.blob]; !ok || !u.holds(c.path, p) {
			u.Status.Dirty = true
			continue
		}
		u.Status.pointers = append(u.Status.pointers, c.path)
	}
	return ctx.Err()
}

// Pointer is what a pointer of Git LFS says of a file: its SHA-256 in hexadecimal digits, and its size in bytes.
type Pointer struct{ SHA256, Size string }

// Pointers returns those of the blobs that are pointers of Git LFS, by their ids.
func (g Runner) Pointers(ctx context.Context, blobs []string) (map[string]Pointer, error) {
	texts, err := g.readSmall(ctx, blobs)
	if err != nil {
		return nil, fmt.Errorf("read pointers of Git LFS: %w", err)
	}
	pointers := make(map[string]Pointer)
	for id, text := range texts {
		if found := pointerText().FindStringSubmatch(text); found != nil {
			pointers[id] = Pointer{SHA256: found[1], Size: found[2]}
		}
	}
	return pointers, nil
}

// readSmall returns the blobs that are small enough to be pointers, by their ids.
func (g Runner) readSmall(ctx context.Context, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	sizes, err := g.Run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, err
	}
	var small strings.Builder
	total := 0
	for line := range strings.Lines(string(sizes)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // it is missing
		}
		if n, err := strconv.Atoi(fields[2]); err == nil && n < maxPointer && total+n < maxPointers {
			total += n
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

// holds reports whether a file is what a pointer says.
func (u *UserRepository) holds(path string, p Pointer) bool {
	file, err := openIn(u.Top, path)
	if err != nil {
		return false
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || strconv.FormatInt(info.Size(), 10) != p.Size {
		return false
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return err == nil && hex.EncodeToString(hash.Sum(nil)) == p.SHA256
}
