package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"holon/internal/durable"
)

// triggerKeySize is the length of the key in bytes.
const triggerKeySize = 32

// Owner is a word that no other home has, by which the containers of this one are known where other machines see them,
// too. It is made where there is none. A home that is moved keeps it; two copies of a home are one owner.
func (h Home) Owner() (string, error) {
	path := h.OwnerPath()
	word, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		made := path + "-" + rand.Text()
		err = errors.Join(os.MkdirAll(h.dir, 0o700), durable.WriteFile(made, []byte(rand.Text()), 0o600))
		if err == nil {
			err = os.Link(made, path)
		}
		_ = os.Remove(made)                            // at worst it stays
		if err == nil || errors.Is(err, fs.ErrExist) { // another process was faster
			word, err = os.ReadFile(path)
		}
	}
	if err == nil && len(word) == 0 {
		err = fmt.Errorf("%s is empty", path)
	}
	if err != nil {
		return "", unusable("put "+path+" back, or remove it: then Pods that it named are found no more", h.dir, err)
	}
	return string(word), nil
}

// TriggerKey reads the key from which the tokens of external triggers are derived, and
// makes it where there is none. Without its file the URLs that exist go on working and
// cannot be told again. The caller holds the ledger of the home, so that no two make it.
func (h Home) TriggerKey() ([]byte, error) {
	path := h.TriggerKeyPath()
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, triggerKeySize)
		_, _ = rand.Read(key) // never fails, by its contract
		err = durable.WriteFile(path, key, 0o600)
	}
	if err == nil && len(key) != triggerKeySize {
		err = fmt.Errorf("%s has %d bytes and not %d", path, len(key), triggerKeySize)
	}
	if err != nil {
		return nil, unusable("remove "+path+" and renew the URLs of the triggers", h.dir, err)
	}
	return key, nil
}
