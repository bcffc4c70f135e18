package home

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"holon/internal/roots"
)

const (
	inboxDir = "inbox"  // where files lie that somebody sent to the agent
	maxNames = 100      // that are tried for one file
	maxSent  = 32 << 20 // bytes of a file: more than a request takes
)

// Keep puts a file that somebody sent to an agent into its home, and returns its path there, inbox/DIGEST/NAME. The
// same file is kept once. What the agent made of it, or put in its place, stays: then the file gets another name, NAME-2
// and so on before its extension. sent reports whether the same request kept the file at a path before; it is there
// then, whatever the agent made of it. The name must be one of a file, without a directory.
func (h *Homes) Keep(id, name string, content []byte, sent func(at string) bool) (string, error) {
	root, err := roots.Open(h.opts.Home.AgentDir(id))
	if err != nil {
		return "", unusable(id, fmt.Errorf("open the agent's home: %w", err))
	}
	defer root.Close()
	dir := folderOf(content)
	names := []string{path.Join(dir, name)}
	for i := 2; i <= maxNames; i++ {
		ext := path.Ext(name)
		names = append(names, path.Join(dir, fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), i, ext)))
	}
	if i := slices.IndexFunc(names, sent); i >= 0 {
		return names[i], nil
	}
	for _, folder := range []string{inboxDir, dir} {
		if err := addFolder(root, folder); err != nil {
			return "", unusable(id, err)
		}
	}
	for _, at := range names {
		added, err := add(root, at, content)
		if err != nil {
			return "", unusable(id, err)
		}
		if added {
			return at, nil
		}
		there, _, err := h.read(id, at, int64(len(content))+1)
		if err == nil && bytes.Equal(there, content) {
			return at, nil
		}
	}
	return "", unusable(id, fmt.Errorf("%s and %d other names of it hold something else", names[0], len(names)-1))
}

// folderOf is the directory of a file that somebody sent, by its digest.
func folderOf(content []byte) string {
	sum := sha256.Sum256(content)
	return path.Join(inboxDir, hex.EncodeToString(sum[:8]))
}

// Changed are those of some files that are not in the agent's home any more as they were sent.
func (h *Homes) Changed(id string, sent []string) (list []string) {
	for _, at := range sent {
		content, _, err := h.read(id, at, maxSent)
		if dir := path.Dir(at); path.Dir(dir) == inboxDir && (err != nil || dir != folderOf(content)) {
			list = append(list, at)
		}
	}
	return list
}
