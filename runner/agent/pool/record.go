package pool

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"

	"holon/runner/sessions"
)

// sessionDir is the name of sessions.Manager.SessionDir.
const sessionDir = "session"

// madeFor is what the container for a turn is to be made from.
func (k *Pool) madeFor(t Turn) sessions.Made {
	return sessions.Made{Image: cmp.Or(t.Image, k.opts.Image), Version: k.opts.Version}
}

// private is the path of what the host keeps in the agent's home.
func (k *Pool) private(a *agent, name string) string {
	return filepath.Join(k.sessions.Dir(a.key()), name)
}

// readRecord reads the record of the agent's container that another process wrote, nil when there is none. With one that
// cannot be used, sessions.CodeDamaged, the agent gets no container and loses none.
func (k *Pool) readRecord(a *agent) (*sessions.Record, error) {
	r, err := k.sessions.Record(a.key())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return r, err
}
