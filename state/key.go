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
