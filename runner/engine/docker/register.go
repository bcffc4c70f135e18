package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/runner/engine"
)

// A register keeps which containers an engine made, so that List finds no
// others: labels prove nothing, because an image can carry them, and a container
// of ours can be committed to an image. Each container is a file with the id of its
// daemon: named by the nonce in its label until the engine has answered, then by its id. The zero
// value keeps nothing and knows every container.
type register struct{ dir string }

// announce notes a container that is about to be made.
func (r register) announce(nonce, daemon string) error {
	if r.dir == "" {
		return nil
	}
	// Not synced: a machine that loses power loses its running containers too.
	if err := os.WriteFile(filepath.Join(r.dir, nonce), []byte(daemon), 0o600); err != nil {
		return fmt.Errorf("note the container to be made: %w", err)
	}
	return nil
}

// made notes the id that the engine gave to the container with the nonce. Only its maker does: while it is being made
// an engine lists it before it can be looked up, so that another list would take it for one that is gone.
func (r register) made(nonce, id string) error {
	if r.dir == "" {
		return nil
	}
	if err := os.Rename(filepath.Join(r.dir, nonce), filepath.Join(r.dir, id)); err != nil {
		return fmt.Errorf("note container %.12s: %w", id, err)
	}
	return nil
}

func (r register) noted(name string) bool {
	_, err := os.Lstat(filepath.Join(r.dir, name))
	return err == nil
}

// knows reports whether the container was made here. One whose maker has not noted the id, or died before it did, is
// recognized by its nonce, which is looked for first: it becomes the id.
func (r register) knows(nonce, id string) bool {
	return r.dir == "" || engine.ValidName(nonce) && r.noted(nonce) || engine.ValidName(id) && r.noted(id)
}

// forget drops a container that is gone, by its id or its nonce.
func (r register) forget(name string) error {
	if r.dir == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(r.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop container %.12s from the register: %w", name, err)
	}
	return nil
}

// forgetNonce is forget for the nonce of a container whose id may not be noted; nil for none.
func (r register) forgetNonce(nonce any) error {
	if name, ok := nonce.(string); ok {
		return r.forget(name)
	}
	return nil
}

// idSize is the length of the id of a container, which no nonce has.
const idSize = 64

// noteds are the ids of the containers that a daemon made and that are not dropped.
func (r register) noteds(daemon string) (ids []string, err error) {
	if r.dir == "" || daemon == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without a register none was made
		return nil, fmt.Errorf("read the register of containers: %w", err)
	}
	for _, e := range entries {
		made, err := os.ReadFile(filepath.Join(r.dir, e.Name()))
		if err == nil && len(e.Name()) == idSize && string(made) == daemon {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}
