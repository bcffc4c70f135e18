package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/durable"
	"holon/responses"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/workspace"
	"holon/state"
)

// recordSchema is the value of "schema" in every session.json of this version.
const recordSchema = "holon.session/1"

// agentRecordSchema was the schema of the records of agents' containers, which had Held below the key "held". They are
// still read.
const agentRecordSchema = "holon.agent-session/1"

// Record is session.json: what a session holds, for a process that finds it after its holon was killed. The
// session of a run and that of an agent keep the same record. It is written durably before the container is
// made and after, mode 0600, where no container sees it, and is removed when everything that it names is given up.
type Record struct {
	Schema string `json:"schema"`
	Held
	Made       *Made `json:"made,omitempty"` // of an agent's container, else nil
	*RunRecord       // of a run, else nil
}

// Held is what a session holds. Image, models and user are those that the container was made with.
type Held struct {
	ID        string          `json:"id"`         // Config.ID
	Engine    string          `json:"engine"`     // engine.Engine.Name
	Handle    *engine.Handle  `json:"handle"`     // null before the container is made
	User      *engine.User    `json:"user"`       // of commands in the container; null for the host's own
	Server    *engine.User    `json:"server"`     // of agentd; null where it is that of commands
	Dir       string          `json:"dir"`        // the session's directory
	Sockets   string          `json:"sockets"`    // directory of the sockets
	Tree      *workspace.Held `json:"tree"`       // null when there is none
	SessionID string          `json:"session_id"` // by which agentd knows the conversation
	Image     string          `json:"image"`
	Model     string          `json:"model"`
	Fallbacks []string        `json:"fallbacks,omitempty"`
}

// Made is what an agent asked its container to be made from. Another value needs another container.
type Made struct {
	Image     string   `json:"image"`
	Version   string   `json:"version"`
	Providers []string `json:"providers"` // Models.Providers, of which agentd was told
}

// RunRecord is what is needed to finish a run, in addition to what its session holds.
type RunRecord struct {
	Owner     Process `json:"owner"`      // the holon that holds the run
	TurnID    string  `json:"turn_id"`    // chosen before the turn is posted
	Prompt    string  `json:"prompt"`     // its beginning, for the summary
	DiskBytes int64   `json:"disk_bytes"` // quota; 0: none
	Keep      bool    `json:"keep"`
	// GrantHash is the digest of the token by which the gateway knows the turn; zero where it has none.
	GrantHash gateway.TokenHash `json:"grant_hash,omitzero"`
	Manifest  *state.Manifest   `json:"manifest"` // as far as it was known
}

const (
	maxRecord         = 4 << 20
	MaxRecordedPrompt = 64 << 10
)

// ReadRecord reads the record in dir; fs.ErrNotExist when its session holds nothing, or held nothing yet.
func ReadRecord(dir string) (*Record, error) {
	data, err := durable.ReadFile(filepath.Join(dir, state.SessionFile), maxRecord)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", state.SessionFile, err)
	}
	r := new(Record)
	old := struct {
		*Record
		Agent *Held `json:"held"`
	}{Record: r}
	if err := json.Unmarshal(data, &old); err != nil {
		return nil, fmt.Errorf("read %s: %w", state.SessionFile, err)
	}
	switch {
	case r.Schema == agentRecordSchema && old.Agent != nil:
		r.Held = *old.Agent
	case r.Schema != recordSchema:
		return nil, &Error{Code: state.CodeManifestInvalid, Param: "schema",
			Message: fmt.Sprintf("%s has the schema %.64q, not %s", state.SessionFile, r.Schema, recordSchema),
			Hint:    "use the holon that wrote it, or a newer one"}
	}
	if !filepath.IsAbs(r.Dir) || !filepath.IsAbs(r.Sockets) || !r.RunRecord.valid() {
		return nil, incomplete(dir)
	}
	if r.RunRecord != nil { // earlier versions kept these in the manifest only
		m := r.Manifest
		r.ID, r.Image, r.Model = cmp.Or(r.ID, m.RunID), cmp.Or(r.Image, m.Image), cmp.Or(r.Model, m.Model)
	}
	return r, nil
}

// ReadRunRecord is ReadRecord for the directory of a run.
func ReadRunRecord(dir string) (*Record, error) {
	r, err := ReadRecord(dir)
	if err == nil && r.RunRecord == nil {
		return nil, incomplete(dir)
	}
	return r, err
}

func incomplete(dir string) error {
	return &Error{Code: state.CodeManifestInvalid,
		Message: state.SessionFile + " lacks what a session cannot be taken up without", Hint: "look at " + dir}
}

// valid reports whether a run can be finished with the record. A nil record is that of an agent.
func (r *RunRecord) valid() bool {
	return r == nil || r.Manifest != nil && responses.CheckID("turn_id", r.TurnID) == nil
}

func (r *Record) write(dir string) error {
	r.Schema = recordSchema
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("encode %s: %w", state.SessionFile, err)
	}
	return durable.WriteFile(filepath.Join(dir, state.SessionFile), b.Bytes(), 0o600)
}

// RemoveRecord removes the record in dir and, before it, the account that a run keeps next to it.
func RemoveRecord(dir string) error {
	for _, name := range []string{state.UsageFile, state.SessionFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}
