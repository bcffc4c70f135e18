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

// line is one of log.ndjson: a turn alone is about to be asked for. One of Turn, Item, Deleted, Ended and Rewound is set.
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

// folded is a log as far as it was read.
type folded struct {
	responses []string
	known     map[string]kind
	going     []string          // turns without an end
	asked     map[string]string // what they are asked, until agentd has accepted them
	turns     int               // that began and ended
	failed    int               // that never began
	account   state.Account     // of all turns
	last      turns.Time        // newest line
	lastTurn  state.TurnRef

	made    map[string]*Turn // by response
	current string           // Session.Current
	tree    string           // turn that left the tree as it was last, or markStart
	rewound bool             // no turn was accepted since the session went back
	newest  string           // turn that was asked for
	rewinds int              // since then
}

func newFolded(created turns.Time) folded {
	return folded{known: make(map[string]kind), asked: make(map[string]string), last: created,
		made: make(map[string]*Turn), tree: markStart}
}

// take adds a line, and reports whether the id is new to the index.
func (f *folded) take(l line) (added bool) {
	f.last = l.At
	switch {
	case l.Response != "":
		f.responses = append(f.responses, l.Response)
		f.lastTurn = state.TurnRef{TurnID: l.Turn, ResponseID: l.Response}
		before := f.current
		if t := f.made[l.Response]; t != nil { // files that a container wrote may have it twice
			before = t.before
		}
		f.made[l.Response] = &Turn{TurnID: l.Turn, ResponseID: l.Response, PreviousResponseID: before,
			CreatedAt: l.At, Status: responses.StatusInProgress, Input: f.asked[l.Turn], mark: l.Turn, before: before}
		f.current, f.rewound = l.Response, false
		delete(f.asked, l.Turn)
	case l.Turn != "":
		f.going = append(f.going, l.Turn)
		f.asked[l.Turn] = l.Input
		f.newest, f.rewinds = l.Turn, 0
	case l.Deleted != "":
		f.responses = slices.DeleteFunc(f.responses, func(id string) bool { return id == l.Deleted })
		if t := f.made[l.Deleted]; t != nil {
			t.unstored = true
			f.current = f.continuable(f.current)
		}
		return false
	case l.Rewound != nil:
		f.rewind(*l.Rewound)
		return false
	case l.Ended != "":
		f.end(l)
		f.going = slices.DeleteFunc(f.going, func(id string) bool { return id == l.Ended })
		delete(f.asked, l.Ended)
		if l.Begun {
			f.turns++
		} else { // its id names nothing
			f.failed++
			delete(f.known, l.Ended)
		}
		if l.Account != nil {
			f.account = sum(f.account, *l.Account)
		}
		return false
	}
	id, of := l.id()
	if added = f.known[id] == 0 && len(f.known) < maxIDs; added {
		f.known[id] = of
	}
	return added
}

// end is what a line adds to the turn that ended.
func (f *folded) end(l line) {
	if !l.Begun {
		return
	}
	mark := f.mark()
	f.tree = l.Ended
	if t := f.turn(l.Ended); t != nil {
		t.Status, t.Text, t.unstored = l.Status, l.Text, l.Unstored
		if l.Previous != "" || l.Status != responses.StatusFailed { // else the response may be lost, and what it continued
			t.PreviousResponseID = l.Previous
		}
		if l.Idle {
			t.mark = mark
		}
		f.current = f.continuable(f.current)
	}
}

// rewind is what going back changes: the tree that is left gets a mark of its own.
func (f *folded) rewind(r rewound) {
	f.current, f.rewound, f.rewinds = f.continuable(r.Response), true, f.rewinds+1
	if !r.Tree {
		return
	}
	left, to := f.turn(f.tree), f.made[r.Response]
	if left != nil && left != to {
		left.mark = left.TurnID
	}
	if f.tree = markStart; to != nil {
		f.tree = to.TurnID
	}
}

// turn is a turn that agentd has accepted, nil for none.
func (f *folded) turn(id string) *Turn {
	for _, response := range slices.Backward(f.responses) {
		if t := f.made[response]; t.TurnID == id {
			return t
		}
	}
	return nil
}

// mark is the mark of what the tree was last, which may not have been made.
func (f *folded) mark() string {
	if t := f.turn(f.tree); t != nil {
		return t.mark
	}
	return f.tree
}

// continuable is a response, or the newest one before it that a turn can continue; "" for none.
func (f *folded) continuable(id string) string {
	for t := f.made[id]; t != nil && t.discontinued(); t = f.made[id] {
		id = t.before
	}
	return id
}

// of adds to the end of a turn what its response says. A turn without a final response has failed.
func (l line) of(resp *responses.Response) line {
	l.Status = responses.StatusFailed
	if resp == nil {
		return l
	}
	if resp.Status.Terminal() {
		l.Status = resp.Status
	}
	l.Text, l.Unstored = preview(resp.OutputText()), !resp.Store
	if resp.PreviousResponseID != nil {
		l.Previous = *resp.PreviousResponseID
	}
	return l
}

// sum adds what a turn took of models.
func sum(a, b state.Account) state.Account {
	u, v := &a.Usage, b.Usage
	u.Requests, u.Estimated, u.Unpriced = u.Requests+v.Requests, u.Estimated+v.Estimated, u.Unpriced+v.Unpriced
	u.Input, u.CacheRead, u.CacheWrite = u.Input+v.Input, u.CacheRead+v.CacheRead, u.CacheWrite+v.CacheWrite
	u.Output, u.Reasoning = u.Output+v.Output, u.Reasoning+v.Reasoning
	u.Total, u.Cost = u.Total+v.Total, u.Cost+v.Cost
	return a
}

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
