package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"holon/internal/durable"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/workspace"
	"holon/state"
)

// Names in the directory of a session, next to those of the pool.
const (
	recordFile = "conversation.json"
	logFile    = "log.ndjson"
	sessionDir = "session" // agentd's, of package sessions
	changeDir  = "change"  // what was changed in its tree
	objectsDir = "objects" // git objects of its tree, which its container reads
	treeDir    = "tree"    // the private tree
	emptyDir   = "empty"   // what a session without a workspace works on
	patchFile  = "diff.patch"
	bundleFile = "branches.bundle"
)

// Names in the directory of all sessions.
const (
	removedPrefix = ".removed-"
	damagedMark   = ".damaged-"
)

const (
	recordSchema = "holon.conversation/1"
	maxRecord    = 4 << 20
)

// Statuses of a session.
const (
	StatusOpen   = "open"
	StatusClosed = "closed"
)

// record is conversation.json: what a session is, as far as its log does not say it.
type record struct {
	Schema    string          `json:"schema"`
	ID        string          `json:"id"`
	Owner     string          `json:"owner"` // access.Caller.Name
	Name      string          `json:"name"`  // the owner's, "" for none
	Model     string          `json:"model"` // of its first turn
	Image     string          `json:"image"` // "": Options.Image
	Workspace string          `json:"workspace"`
	Once      bool            `json:"once,omitempty"` // Ask.Once
	CreatedAt turns.Time      `json:"created_at"`
	ClosedAt  turns.Time      `json:"closed_at"` // null: it is open
	ClosedBy  string          `json:"closed_by,omitempty"`
	Finished  bool            `json:"finished"`           // its manifest is written and its tree given up
	Tree      *workspace.Held `json:"tree"`               // null before it is made, and when it was given up
	Host      string          `json:"host,omitempty"`     // that has Tree: its state.Home.Owner
	WorkDir   string          `json:"work_dir,omitempty"` // Session.WorkDir once Tree was given up
}

func (r *record) open() bool { return r.ClosedAt.IsZero() }

// workDir is Session.WorkDir.
func (r *record) workDir(local bool) string {
	switch tree := r.Tree; {
	case tree == nil:
		return r.WorkDir
	case local:
		return filepath.Join(tree.TreeDir, tree.Info.Prefix)
	default:
		return path.Join(runner.WorkspacesPath, treeName, tree.Info.Prefix)
	}
}

var errIncomplete = errors.New("it lacks what a session cannot go on without")

func readRecord(dir, id string) (*record, error) {
	data, err := durable.ReadFile(filepath.Join(dir, recordFile), maxRecord)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", recordFile, err)
	}
	r := new(record)
	if err = json.Unmarshal(data, r); err == nil && r.Schema != recordSchema {
		err = fmt.Errorf("it has the schema %.64q, not %s", r.Schema, recordSchema)
	}
	if err == nil && (r.ID != id || r.Owner == "" || r.CreatedAt.IsZero()) {
		err = errIncomplete
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", recordFile, err)
	}
	return r, nil
}

// write makes the record durable.
func (r *record) write(home state.Home) error {
	r.Schema = recordSchema
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = durable.WriteFile(filepath.Join(home.SessionDir(r.ID), recordFile), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the session %s: %w", r.ID, err)
	}
	return nil
}

// amend records that something became of a session, and only then lets it be seen. change is called under mu.
func (x *Session) amend(change func(*record) error) error {
	s := x.sessions
	x.writing.Lock()
	defer x.writing.Unlock()
	s.mu.Lock()
	r := x.record
	err := change(&r)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := r.write(s.opts.Home); err != nil {
		return err
	}
	s.mu.Lock()
	x.record = r
	s.mu.Unlock()
	s.touch(x)
	return nil
}
