package pool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"holon/internal/durable"
	"holon/internal/roots"
	"holon/runner"
	"holon/runner/gateway"
)

// What is kept in an agent's private directory, next to runner.Record.
const (
	sessionDir = "session"   // what the container and agentd write: Config.Dir
	turnFile   = "turn.json" // asked
	egressFile = "egress.ndjson"
)

// madeFor is what the container for a turn is to be made from.
func (k *Pool) madeFor(t Turn) runner.Made {
	return runner.Made{Image: cmp.Or(t.Image, k.opts.Image), Version: k.opts.Version}
}

// asked is turn.json: the newest turn that was asked for, and by what the gateway
// knows it. It has to survive this process, but not the machine: containers do not survive that
// either. It is not synced.
type asked struct {
	TurnID string            `json:"turn_id"`
	Grant  gateway.TokenHash `json:"grant_hash"`
}

// private is the path of what the host keeps in the agent's home, which the agent
// may have closed meanwhile: it is opened again.
func (k *Pool) private(a *agent, name string) string {
	_ = roots.Reopen(k.opts.Home.AgentDir(a.id)) // a home that is not there is told by what needs it
	return filepath.Join(k.opts.Home.AgentPrivateDir(a.id), name)
}

// readRecord reads the record of the agent's container that another process wrote, nil when there is none that could be
// used: containers are found by their labels all the same.
func (k *Pool) readRecord(a *agent) *runner.Record {
	r, err := runner.ReadRecord(k.private(a, ""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (r.Made == nil || r.ID == "" || r.Dir != k.private(a, sessionDir)) {
		err = errors.New("it is that of another home, or of a run")
	}
	if err != nil {
		k.opts.Log.Warn("the record of an agent's container cannot be used", "agent", a.id, "err", err)
		return nil
	}
	return r
}

func (k *Pool) removeRecord(a *agent) error { return runner.RemoveRecord(k.private(a, "")) }

// askedSize is the size of turn.json, which spaces fill up. It is written over in place, by one call within one page,
// so that a kill leaves the old or the new one. To replace it by another file makes the disk work.
const askedSize = 1024

// noteTurn keeps which turn is about to be asked for.
func (k *Pool) noteTurn(a *agent, turnID string, grant gateway.TokenHash) error {
	data, err := json.Marshal(asked{turnID, grant})
	if err != nil {
		return err
	}
	data = append(data, bytes.Repeat([]byte{' '}, max(0, askedSize-len(data)))...)
	file, err := os.OpenFile(k.private(a, turnFile), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err == nil {
		_, err = file.WriteAt(data, 0)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("keep which turn is asked for: %w", err)
	}
	return nil
}

// grantOf returns by what the gateway knows a turn that was asked for; zero when
// that is not known, and the turn can ask no more models.
func (k *Pool) grantOf(a *agent, turnID string) gateway.TokenHash {
	var t asked
	data, err := durable.ReadFile(k.private(a, turnFile), maxAsked)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err == nil && t.TurnID == turnID {
		return t.Grant
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.opts.Log.Warn("a turn's grant is lost, so that it can ask no more models", "agent", a.id, "turn", turnID,
			"err", err)
	}
	return gateway.TokenHash{}
}

const maxAsked = 1 << 20 // bytes of turn.json
