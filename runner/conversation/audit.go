package conversation

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"holon/responses/turns"
)

// auditFile, in the directory of all sessions, has a line for each that was opened, brought to the operator's files or
// back to a response, or closed. A full one becomes auditFile.1.
const (
	auditFile = "audit.ndjson"
	maxAudit  = 16 << 20
)

// event is a line of the audit.
type event struct {
	At        turns.Time `json:"at"`
	What      string     `json:"what"` // opened, applied, checked_out, rewound, tree_lost, closed, removed
	Session   string     `json:"session"`
	Owner     string     `json:"owner"`
	By        string     `json:"by"` // a token's name; "holon" for what time did
	Name      string     `json:"name,omitempty"`
	Model     string     `json:"model,omitempty"`
	Image     string     `json:"image,omitempty"`
	Workspace string     `json:"workspace,omitempty"`
	Branch    string     `json:"branch,omitempty"`
	Files     int        `json:"files,omitempty"`
	Response  string     `json:"response,omitempty"` // that was gone back to
}

// note adds a line to the audit. What it is about is done: a line that cannot be written is in the log.
func (s *Sessions) note(e event) {
	s.audit.Lock()
	defer s.audit.Unlock()
	e.At = s.now()
	path := filepath.Join(s.opts.Home.SessionsDir(), auditFile)
	data, err := json.Marshal(e)
	if info, statErr := os.Stat(path); statErr == nil && info.Size() > maxAudit {
		err = errors.Join(err, os.Rename(path, path+".1"))
	} else if statErr != nil && !errors.Is(statErr, fs.ErrNotExist) {
		err = errors.Join(err, statErr)
	}
	if err == nil {
		err = appendFile(path, append(data, '\n'), true)
	}
	if err != nil {
		s.opts.Log.Warn("the audit lacks a line", "what", e.What, "session", e.Session, "by", e.By, "err", err)
	}
}
