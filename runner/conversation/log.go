package conversation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/turnfiles"
	"holon/state"
)

const (
	maxLog = 64 << 20
	maxIDs = 100_000 // of a session that the index has: a container names the items
)

// line is one of log.ndjson: a turn alone is about to be asked for. One of Turn, Item, Deleted, Ended, Rewound and
// TreeLost is set.
type line struct {
	At       turns.Time     `json:"at"`
	Turn     string         `json:"turn,omitempty"`
	Input    string         `json:"input,omitempty"`    // of Turn: the beginning of what it is asked
	Response string         `json:"response,omitempty"` // of Turn, which agentd has accepted
	Item     string         `json:"item,omitempty"`
	Deleted  string         `json:"deleted,omitempty"` // that response
	Ended    string         `json:"ended,omitempty"`   // that turn
	Begun    bool           `json:"begun,omitempty"`   // agentd had accepted it
	Account  *state.Account `json:"account,omitempty"`
	Rewound  *rewound       `json:"rewound,omitempty"`
	TreeLost bool           `json:"tree_lost,omitempty"` // the tree stayed on another host: the next one is as it began

	// Of Ended, as Turn has them.
	Status   responses.Status `json:"status,omitempty"`
	Previous string           `json:"previous,omitempty"`
	Text     string           `json:"text,omitempty"`
	Unstored bool             `json:"unstored,omitempty"`
	Idle     bool             `json:"idle,omitempty"` // it left the tree as it was, alone
}

// rewound is that the session went back.
type rewound struct {
	Response string `json:"response"`       // "": to the beginning
	Tree     bool   `json:"tree,omitempty"` // the tree was brought back too
}

// id is what a line adds to the index.
func (l line) id() (string, kind) {
	switch {
	case l.Response != "":
		return l.Response, kindResponse
	case l.Turn != "":
		return l.Turn, kindTurn
	}
	return l.Item, kindItem
}

// kind is what an id names.
type kind int

const (
	_ kind = iota // nothing
	kindItem
	kindResponse
	kindTurn
)

// readLog reads the log of a session, which it has from its beginning. An unfinished line at its end, which a kill
// left, is cut off.
func readLog(dir string, created turns.Time) (f folded, err error) {
	path := filepath.Join(dir, logFile)
	f = newFolded(created)
	data, err := durable.ReadFile(path, maxLog)
	if err != nil {
		return f, err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	for text := range bytes.Lines(data[:whole]) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return f, fmt.Errorf("read %s: %w", logFile, err)
		}
		f.take(l)
	}
	if whole < len(data) {
		err = os.Truncate(path, int64(whole))
	}
	return f, err
}

// append adds lines to the log, and then to the index. The caller holds writing.
func (x *Session) append(lines ...line) error {
	err := x.write(lines)
	if err == nil {
		x.take(lines)
	}
	return err
}

// write adds lines to the log. The caller holds writing.
func (x *Session) write(lines []line) error {
	s := x.sessions
	var text []byte
	for i := range lines {
		lines[i].At = s.now()
		data, err := json.Marshal(lines[i])
		if err != nil {
			return fmt.Errorf("encode a line of the log: %w", err)
		}
		text = append(append(text, data...), '\n')
	}
	if err := appendFile(x.dir(logFile), text, false); err != nil {
		return fmt.Errorf("record what the session %s does: %w", x.id, err)
	}
	return nil
}

// sync returns when what is in the log survives a power cut; a kill takes nothing from it.
func (x *Session) sync() error {
	f, err := os.Open(x.dir(logFile))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	x.sessions.mu.Lock()
	fresh := len(x.log.responses) == 0
	x.sessions.mu.Unlock()
	if err == nil && fresh {
		err = durable.SyncDir(x.dir())
	}
	if err != nil {
		err = fmt.Errorf("sync the log of the session %s: %w", x.id, err)
	}
	return err
}

// take adds lines to the index.
func (x *Session) take(lines []line) {
	s := x.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lines {
		if x.log.take(l) {
			id, _ := l.id()
			s.index[id] = append(s.index[id], x)
		}
		if l.Ended != "" && !l.Begun {
			s.unlist(l.Ended, x)
		}
	}
	s.grown.Broadcast()
}

// appendFile appends whole lines, all or none of them as far as this process goes on.
func appendFile(path string, text []byte, sync bool) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil && sync {
		err = f.Sync()
	}
	if err == nil && sync && info.Size() == 0 {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil { // half a line would spoil the next one
		err = errors.Join(err, f.Truncate(info.Size()))
	}
	return err
}

// unlist takes an id of a session out of the index. The caller holds mu.
func (s *Sessions) unlist(id string, x *Session) {
	s.index[id] = slices.DeleteFunc(s.index[id], func(other *Session) bool { return other == x })
	if len(s.index[id]) == 0 {
		delete(s.index, id)
	}
}

// rebuildLog writes a log that was lost anew, from what agentd recorded of the turns. What they took of models is not
// known any more, and what turns are under way is what agentd did not end.
func (x *Session) rebuildLog(ctx context.Context) error {
	dir := filepath.Join(x.sessions.opts.Home.SessionDir(x.id), sessionDir)
	lines := []line{}
	if output, err := turnfiles.OpenOutput(dir); err == nil {
		defer output.Close()
		entries, err := fs.ReadDir(output.FS(), "turns") // by name, and so by time
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list the turns of the session %s: %w", x.id, err)
		}
		for _, e := range entries {
			lines = append(lines, recordedLines(ctx, dir, e.Name())...)
		}
	}
	if len(lines) == 0 { // it made no turn yet
		return nil
	}
	x.sessions.opts.Log.Warn("the log of a session was lost, and is written anew", "session", x.id)
	x.writing.Lock()
	defer x.writing.Unlock()
	return cmp.Or(x.append(lines...), x.sync())
}

// recordedLines are the lines of a turn, as far as agentd recorded it.
func recordedLines(ctx context.Context, dir, turnID string) []line {
	if responses.CheckID("turn_id", turnID) != nil {
		return nil
	}
	rec, resp, err := turnfiles.Read(dir, turnID)
	if rec == nil || err != nil {
		return nil
	}
	lines := []line{{Turn: turnID}, {Turn: turnID, Response: rec.ResponseID}}
	if files, err := turnfiles.Open(dir, turnID); err == nil {
		defer files.Close()
		for text, err := range files.Lines(ctx, turns.JournalFile, func() bool { return false }) {
			if err != nil {
				break
			}
			e, err := turns.DecodeEntry(text)
			if err == nil && e.Stream != nil && e.Stream.Type == responses.EventItemAdded {
				lines = append(lines, line{Item: itemID(*e.Stream)})
			}
		}
	}
	if rec.Status.Terminal() {
		lines = append(lines, line{Ended: turnID, Begun: true}.of(resp))
	}
	return slices.DeleteFunc(lines, func(l line) bool {
		id, _ := l.id()
		return l.Ended == "" && responses.CheckID("id", id) != nil
	})
}

// itemID is the id of the item of an event, "" for none that can be looked up.
func itemID(ev responses.Event) string {
	if ev.Item == nil || responses.CheckID("item_id", ev.Item.ItemID()) != nil {
		return ""
	}
	return ev.Item.ItemID()
}
