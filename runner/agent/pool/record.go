package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holon/internal/durable"
	"holon/internal/roots"
	"holon/runner"
	"holon/runner/gateway"
)

// What is kept in an agent's private directory.
const (
	sessionDir  = "session"      // what the container and agentd write: Config.Dir
	sessionFile = "session.json" // record
	turnFile    = "turn.json"    // asked
	egressFile  = "egress.ndjson"
)

// recordSchema is the value of "schema" in every session.json of an agent.
const recordSchema = "holon.agent-session/1"

// record is session.json: what the container of an agent is and what it was made
// from, for a process that finds it. It is written durably before the container
// is made and after, and removed when the container is gone.
type record struct {
	Schema string      `json:"schema"`
	Made   made        `json:"made"`
	Held   runner.Held `json:"held"`
}

// made is what a container was made from, as it was asked for. Another value
// needs another container.
type made struct {
	Image     string   `json:"image"`
	Model     string   `json:"model"`
	Fallbacks []string `json:"fallbacks,omitempty"`
	Version   string   `json:"version"`
}

func (k *Pool) madeFor(t Turn) made {
	image := t.Image
	if image == "" {
		image = k.opts.Image
	}
	return made{Image: image, Model: t.Model, Fallbacks: t.Fallbacks, Version: k.opts.Version}
}

// differs says what of m is not as in other, "" when nothing is.
func (m made) differs(other made) string {
	switch {
	case m.Image != other.Image:
		return "the image changed"
	case m.Model != other.Model || !slices.Equal(m.Fallbacks, other.Fallbacks):
		return "the model changed"
	case m.Version != other.Version:
		return "another version of holon made it"
	}
	return ""
}

// asked is turn.json: the newest turn that was asked for, and by what the gateway
// knows it. It has to survive the process and not the machine, whose end ends the
// container too: it is not synced.
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

// writeRecord keeps what the agent's session holds by now.
func (k *Pool) writeRecord(a *agent, m made, held runner.Held) error {
	data, err := json.MarshalIndent(record{Schema: recordSchema, Made: m, Held: held}, "", "  ")
	if err == nil {
		err = durable.WriteFile(k.private(a, sessionFile), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the record of the agent's container: %w", err)
	}
	return nil
}

// readRecord reads what another process kept; nil when there is nothing, or
// nothing that could be used: containers are found by their labels all the same.
func (k *Pool) readRecord(a *agent) *record {
	var r record
	err := readJSON(k.private(a, sessionFile), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (r.Schema != recordSchema || r.Held.Dir != k.private(a, sessionDir) ||
		!filepath.IsAbs(r.Held.Sockets) || r.Held.ID == "") {
		err = errors.New("it is of another version, or of another home")
	}
	if err != nil {
		k.opts.Log.Warn("the record of an agent's container cannot be used", "agent", a.id, "err", err)
		return nil
	}
	return &r
}

func (k *Pool) removeRecord(a *agent) error {
	if err := os.Remove(k.private(a, sessionFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of the agent's container: %w", err)
	}
	return nil
}

// noteTurn keeps which turn is about to be asked for.
func (k *Pool) noteTurn(a *agent, turnID string, grant gateway.TokenHash) error {
	data, err := json.Marshal(asked{turnID, grant})
	if err != nil {
		return err
	}
	path := k.private(a, turnFile)
	if err = os.WriteFile(path+".new", data, 0o600); err == nil {
		err = os.Rename(path+".new", path)
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
	err := readJSON(k.private(a, turnFile), &t)
	if err == nil && t.TurnID == turnID {
		return t.Grant
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.opts.Log.Warn("a turn's grant is lost, so that it can ask no more models", "agent", a.id, "turn", turnID,
			"err", err)
	}
	return gateway.TokenHash{}
}

const maxRecord = 1 << 20

func readJSON(path string, v any) error {
	data, err := durable.ReadFile(path, maxRecord)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}
