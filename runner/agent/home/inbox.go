package home

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"holon/internal/roots"
	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/state"
)

const (
	inboxDir = "inbox"  // where files lie that somebody sent to the agent
	maxNames = 100      // that are tried for one file
	maxSent  = 32 << 20 // bytes of a file: more than a request takes
)

// Keep puts a file that somebody sent to an agent into its home, and returns its path there, inbox/DIGEST/NAME. The
// same file is kept once. What the agent made of it, or put in its place, stays: then the file gets another name,
// NAME-2 and so on before its extension. sent reports whether the same request kept the file at a path before; it is
// there then, whatever the agent made of it. The name must be one of a file, without a directory.
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
		err := addFolder(root, folder)
		if err == nil {
			err = isFolder(root, folder)
		}
		if err != nil {
			return "", unkept(id, err)
		}
	}
	for _, at := range names {
		added, err := add(root, at, content)
		if err != nil {
			return "", unkept(id, err)
		}
		if added {
			return at, nil
		}
		there, _, err := h.read(id, at, int64(len(content))+1)
		if err == nil && bytes.Equal(there, content) {
			return at, nil
		}
	}
	return "", unkept(id, fmt.Errorf("%s and %d other names of it hold something else", names[0], len(names)-1))
}

// isFolder refuses what the agent put in the place of a directory, also a link to one.
func isFolder(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s in it is not a directory", name)
	}
	return err
}

// unkept says why a file that was sent is not in the home of an agent.
func unkept(id string, err error) error {
	return &state.Error{Code: view.CodeHomeUnusable, Param: "parts",
		Message: fmt.Sprintf("the file can't be put into the home of agent %s: %s", id, visible.OneLine(err.Error(), 400)),
		Hint:    "mend the directory " + inboxDir + " in the home, or look at the disk"}
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
