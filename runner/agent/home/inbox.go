package home

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"holon/internal/roots"
)

// inboxDir is where files lie that somebody sent to the agent.
const inboxDir = "inbox"

// Keep puts a file that somebody sent to an agent into its home, and returns its path there, inbox/DIGEST/NAME. The same
// file is kept once; what the agent made of it stays. The name must be one of a file, without a directory.
func (h *Homes) Keep(id, name string, content []byte) (at string, err error) {
	root, err := roots.Open(h.opts.Home.AgentDir(id))
	if err != nil {
		return "", unusable(id, fmt.Errorf("open the agent's home: %w", err))
	}
	defer root.Close()
	sum := sha256.Sum256(content)
	dir := path.Join(inboxDir, hex.EncodeToString(sum[:8]))
	for _, folder := range []string{inboxDir, dir} {
		if err := addFolder(root, folder); err != nil {
			return "", unusable(id, err)
		}
	}
	if _, err = add(root, path.Join(dir, name), content); err != nil {
		return "", unusable(id, err)
	}
	return path.Join(dir, name), nil
}
