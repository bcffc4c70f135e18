// Package check holds what must be true after a crash and the recovery from it:
// of the files of a turn, of agentd's store, of a run of holon, and of the
// machine. Each invariant is a function that returns what breaks it, or nil. The
// functions share no code with what they check, read files only, and are shown
// to find each violation by a test that plants it.
package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of a turn's files, as docs/reference/turn.md has them.
const (
	recordFile  = "turn.json"
	journalFile = "journal.ndjson"
	eventsFile  = "events.ndjson"
	runtimeFile = "runtime.ndjson"
	failureFile = "failure.json"
)

// Record is what the checks need of turn.json.
type Record struct {
	SessionID   string  `json:"session_id"`
	TurnID      string  `json:"turn_id"`
	ResponseID  string  `json:"response_id"`
	Status      string  `json:"status"`
	CompletedAt *string `json:"completed_at"`
	Error       *struct {
		Code string `json:"code"`
	} `json:"error"`
	Artifacts []Artifact `json:"artifacts"`
}

var terminal = []string{"completed", "failed", "incomplete", "cancelled"}

func ReadRecord(dir string) (*Record, error) {
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return nil, fmt.Errorf("a turn has no record: %w", err)
	}
	rec := &Record{}
	if err := json.Unmarshal(data, rec); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", recordFile, err)
	}
	return rec, nil
}

// Ended checks that the turn in dir has exactly one end: a terminal record whose
// status is that of the one terminal event, which is the last.
func Ended(dir string) error {
	rec, err := ReadRecord(dir)
	if err != nil {
		return err
	}
	if !slices.Contains(terminal, rec.Status) || rec.CompletedAt == nil {
		return fmt.Errorf("%s: the record of an accepted turn has no end: status %q, completed_at %v", rec.TurnID,
			rec.Status, deref(rec.CompletedAt))
	}
	ends, last := []string{}, ""
	err = lines(dir, eventsFile, func(_ int, ev *struct {
		Type     string
		Response *struct{ ID, Status string }
	}) error {
		switch last = ev.Type; last {
		case "response.completed", "response.failed", "response.incomplete", "response.cancelled":
			ends = append(ends, last)
			if ev.Response == nil || ev.Response.ID != rec.ResponseID || ev.Response.Status != rec.Status {
				return fmt.Errorf("the stream ends as %+v, the record as %s of %s", ev.Response, rec.Status,
					rec.ResponseID)
			}
		}
		return nil
	})
	if err == nil && (len(ends) != 1 || last != ends[0]) {
		err = fmt.Errorf("the stream has the ends %v and its last event is %q; want one, at the end", ends, last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", rec.TurnID, err)
	}
	return nil
}

// Numbered checks that the events of the turn in dir are numbered from 0 without
// a gap and have no torn line.
func Numbered(dir string) error {
	return lines(dir, eventsFile, func(n int, ev *struct {
		Number *int `json:"sequence_number"`
	}) error {
		if ev.Number == nil || *ev.Number != n {
			return fmt.Errorf("the event has the number %v", deref(ev.Number))
		}
		return nil
	})
}

// Journal checks that the journal of the turn in dir is numbered from 1 without a gap, and that the files of its two
// kinds have exactly its lines.
func Journal(dir string) error {
	kinds := make(map[string][]byte) // by key
	err := lines(dir, journalFile, func(n int, entry *struct {
		Seq             int
		Stream, Runtime json.RawMessage
	}) error {
		if entry.Seq != n+1 || (entry.Stream == nil) == (entry.Runtime == nil) {
			return fmt.Errorf("the line has the number %d: %.50s%.50s", entry.Seq, entry.Stream, entry.Runtime)
		}
		name := eventsFile
		if entry.Stream == nil {
			name = runtimeFile
		}
		kinds[name] = append(append(append(kinds[name], entry.Stream...), entry.Runtime...), '\n')
		return nil
	})
	for _, name := range []string{eventsFile, runtimeFile} {
		data, readErr := os.ReadFile(filepath.Join(dir, name))
		if err = errors.Join(err, readErr); err == nil && !bytes.Equal(data, kinds[name]) {
			err = fmt.Errorf("%s has %d bytes and is not what the journal has in %d", name, len(data), len(kinds[name]))
		}
	}
	return err
}

// Facts checks that runtime.ndjson of the turn in dir is numbered without a gap, from
// 1 where it begins a thread, and has one end, at its end.
func Facts(dir string) error {
	ends, first, last := 0, 1, ""
	err := lines(dir, runtimeFile, func(n int, ev *struct {
		Type     string
		Sequence int
	}) error {
		if n == 0 && ev.Type != "thread.started" {
			first = max(1, ev.Sequence)
		}
		if ev.Sequence != first+n {
			return fmt.Errorf("the fact has the number %d", ev.Sequence)
		}
		if last = ev.Type; last == "turn.completed" || last == "turn.failed" {
			ends++
		}
		return nil
	})
	if err == nil && (ends != 1 || last != "turn.completed" && last != "turn.failed") {
		err = fmt.Errorf("%s has %d ends and its last fact is %q", runtimeFile, ends, last)
	}
	return err
}

// Heard checks that what a client read of a stream, lines with their ends, is
// how the stored stream begins, and is all of it when the client heard the end.
// An end that says that the turn could not be recorded need not be stored as
// such: where nothing can be written, it is made for the client.
func Heard(dir string, seen []byte, ended bool) error {
	stored, err := os.ReadFile(filepath.Join(dir, eventsFile))
	if err != nil {
		return fmt.Errorf("the stream that a client read is not stored: %w", err)
	}
	whole := seen[:bytes.LastIndexByte(bytes.TrimSuffix(seen, []byte("\n")), '\n')+1]
	if last := seen[len(whole):]; ended && !bytes.Equal(stored, seen) && unrecorded(last) {
		seen, ended = whole, false
	}
	switch {
	case !bytes.HasPrefix(stored, seen):
		return fmt.Errorf("a client read %d bytes that the stored stream (%d bytes) does not begin with", len(seen),
			len(stored))
	case ended && len(stored) != len(seen):
		return fmt.Errorf("a client read the end after %d bytes, the stored stream has %d", len(seen), len(stored))
	}
	return nil
}

// unrecorded tells whether an event is an end made for a client because the turn
// could not be recorded.
func unrecorded(line []byte) bool {
	var ev struct {
		Type     string
		Response struct{ Error struct{ Code string } }
	}
	err := json.Unmarshal(line, &ev)
	return err == nil && ev.Type == "response.failed" &&
		slices.Contains([]string{"disk_full", "server_error"}, ev.Response.Error.Code)
}

// Artifacts checks that the record of the turn in dir lists every regular file
// there, and each with its size and digest.
func Artifacts(dir string) error {
	rec, err := ReadRecord(dir)
	if err != nil {
		return err
	}
	known := map[string]bool{recordFile: true, journalFile: true, eventsFile: true, runtimeFile: true, failureFile: true}
	if err := listed(dir, rec.Artifacts, known); err != nil {
		return fmt.Errorf("%s: %w", rec.TurnID, err)
	}
	return nil
}

// Artifact is a file as a record or a manifest lists it.
type Artifact struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// listed checks that every file in dir is an artifact with its size and digest, or known, or beneath a known directory.
func listed(dir string, artifacts []Artifact, known map[string]bool) error {
	seen := map[string]bool{}
	for _, a := range artifacts {
		if seen[a.Path] || known[a.Path] {
			return fmt.Errorf("the artifact %s is listed twice or is a file of the record itself", a.Path)
		}
		seen[a.Path] = true
		data, err := os.ReadFile(filepath.Join(dir, a.Path))
		if err != nil {
			return fmt.Errorf("an artifact is missing: %w", err)
		}
		if sum := sha256.Sum256(data); int64(len(data)) != a.Bytes || hex.EncodeToString(sum[:]) != a.SHA256 {
			return fmt.Errorf("the artifact %s has %d bytes and is not what is listed (%d bytes)", a.Path, len(data),
				a.Bytes)
		}
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		top, _, _ := strings.Cut(rel, "/")
		if err == nil && !seen[rel] && !known[rel] && !known[top+"/"] {
			err = fmt.Errorf("the file %s is not among the artifacts", rel)
		}
		return err
	})
}

// Trajectory checks the stored response: its file has one header, its final
// response at its end, and no call that began twice or has two results. A final
// response that was never shown may precede the one that counts.
func Trajectory(state, responseID string) error {
	seen, finals, last := map[string]int{}, 0, false
	err := lines(filepath.Join(state, "responses"), responseID+".ndjson", func(_ int, l *trajectoryLine) error {
		if last = l.Response != nil; last {
			finals++
			if l.Response.ID != responseID || !slices.Contains(terminal, l.Response.Status) {
				return fmt.Errorf("the final response is %+v", *l.Response)
			}
		}
		if l.Header != nil && l.Header.ResponseID != responseID {
			return fmt.Errorf("it is that of %s", l.Header.ResponseID)
		}
		name := l.name()
		if seen[name]++; name != "" && seen[name] > 1 {
			return fmt.Errorf("it has %s twice", name)
		}
		return nil
	})
	if err == nil && (seen["the header"] != 1 || finals < 1 || finals > 2 || !last) {
		err = fmt.Errorf("the trajectory of %s has %v and %d final responses", responseID, seen, finals)
	}
	return err
}

type trajectoryLine struct {
	Header *struct {
		ResponseID string `json:"response_id"`
	}
	Started *struct {
		CallID string `json:"call_id"`
	}
	Item *struct {
		Type   string
		CallID string `json:"call_id"`
	}
	Response *struct{ ID, Status string }
}

// name is that of a line of which a trajectory may have only one, else "".
func (l *trajectoryLine) name() string {
	switch {
	case l.Header != nil:
		return "the header"
	case l.Started != nil:
		return "the begin of the call " + l.Started.CallID
	case l.Item != nil && strings.HasSuffix(l.Item.Type, "tool_call"):
		return "the result of the call " + l.Item.CallID
	}
	return ""
}

// Settled checks that agentd's store holds no open turn.
func Settled(state string) error {
	open, err := os.ReadDir(filepath.Join(state, "open"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(open) > 0 {
		return fmt.Errorf("%d turns are still open in the store, the first is %s", len(open), open[0].Name())
	}
	return nil
}

// Once checks the file that each command appends its line to: none ran twice. It returns the lines.
func Once(path string) (map[string]bool, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // nothing ran yet
		return nil, err
	}
	ran := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if ran[line] {
			return nil, fmt.Errorf("the command %q ran twice", line)
		}
		ran[line] = true
	}
	return ran, nil
}

// lines calls f with every line of a file, decoded and counted from 0. A line without its
// end is an error.
func lines[T any](dir, name string, f func(n int, line *T) error) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(data) {
		decoded := new(T)
		err := json.Unmarshal(line, decoded)
		if !bytes.HasSuffix(line, []byte("\n")) {
			err = fmt.Errorf("it is torn: %.80q", line)
		}
		if err == nil {
			err = f(n, decoded)
		}
		if n++; err != nil {
			return fmt.Errorf("%s: line %d: %w", name, n, err)
		}
	}
	if n == 0 {
		return fmt.Errorf("%s is empty", name)
	}
	return nil
}

func deref[T any](p *T) any {
	if p == nil {
		return "null"
	}
	return *p
}
