package hosttools

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/responses/turns"
	"holon/state"
)

// Bounds of the notes of a run.
const (
	maxNotes     = 200
	maxNotesFile = 8 << 20 // bytes; what so many notes can need, with every character escaped
)

// record is a line of the file: a note and the call that left it.
type record struct {
	CallID string     `json:"call_id,omitempty"`
	Digest string     `json:"digest"` // of the arguments
	At     turns.Time `json:"at"`
	Kind   string     `json:"kind"`
	Text   string     `json:"text"`
}

// notes is the file with the notes of a run, one JSON object a line.
type notes struct {
	mu      sync.Mutex
	file    *os.File // nil after close
	size    int64
	records []record
	calls   map[string]int // index in records, by call id
	broken  error          // why nothing more is written
}

// openNotes reads the notes that there are and takes more. What a crash left of
// a line is cut off: that call was not answered.
func openNotes(path string) (*notes, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the notes of the run: %w", err)
	}
	n := &notes{file: f, calls: make(map[string]int)}
	if err = n.load(); err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("read the notes of the run: %w", errors.Join(err, f.Close()))
	}
	return n, nil
}

// ReadNotes reads the notes of a run that is no longer served.
func ReadNotes(path string) ([]state.Note, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open the notes of the run: %w", err)
	}
	defer f.Close()
	records, _, err := readNotes(f)
	if err != nil {
		return nil, fmt.Errorf("read the notes of the run: %w", err)
	}
	return shown(records), nil
}

// readNotes reads the whole lines of the file, and how many bytes they are.
func readNotes(f *os.File) (records []record, size int64, err error) {
	data, err := io.ReadAll(io.LimitReader(f, maxNotesFile+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > maxNotesFile {
		return nil, 0, fmt.Errorf("the file has more than %d bytes", maxNotesFile)
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return records, size, nil
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records, size, data = append(records, r), size+int64(len(line))+1, rest
	}
}

func (n *notes) load() error {
	records, size, err := readNotes(n.file)
	if err != nil {
		return err
	}
	for _, r := range records {
		n.keep(r)
	}
	n.size = size
	_, err = n.file.Seek(size, io.SeekStart)
	return errors.Join(err, n.file.Truncate(size))
}

func (n *notes) keep(r record) {
	if r.CallID != "" {
		n.calls[r.CallID] = len(n.records)
	}
	n.records = append(n.records, r)
}

// Reasons for which a note is not taken.
var (
	errConflict = errors.New("the id of this call was used for another note")
	errFull     = fmt.Errorf("the run has %d notes, and may have no more", maxNotes)
)

// add takes a note and returns its number, from 1. It is durable when add
// returns. A call that was made before, with the same arguments, returns the
// number it had then; with others it is errConflict.
func (n *notes) add(callID, kind, text string, now time.Time) (int, error) {
	sum := sha256.Sum256([]byte(kind + "\x00" + text))
	r := record{CallID: callID, Digest: hex.EncodeToString(sum[:]), At: turns.At(now), Kind: kind, Text: text}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, made := n.calls[callID]; made && callID != "" {
		if n.records[i].Digest != r.Digest {
			return 0, errConflict
		}
		return i + 1, nil
	}
	switch {
	case n.broken != nil:
		return 0, n.broken
	case n.file == nil:
		return 0, os.ErrClosed
	case len(n.records) >= maxNotes:
		return 0, errFull
	}
	if err := n.write(r); err != nil {
		return 0, err
	}
	n.keep(r)
	return len(n.records), nil
}

// write appends a line durably. When it cannot, nothing of it stays; when not
// even that is sure, nothing more is written.
func (n *notes) write(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the note: %w", err)
	}
	line = append(line, '\n')
	if _, err = n.file.Write(line); err == nil {
		err = n.file.Sync()
	}
	if err == nil {
		n.size += int64(len(line))
		return nil
	}
	err = fmt.Errorf("write the note: %w", err)
	_, seekErr := n.file.Seek(n.size, io.SeekStart)
	if undone := errors.Join(n.file.Truncate(n.size), seekErr); undone != nil {
		n.broken = errors.Join(err, undone)
	}
	return err
}

// list returns the notes for people.
func (n *notes) list() []state.Note {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return shown(n.records)
}

func shown(records []record) []state.Note {
	list := make([]state.Note, len(records))
	for i, r := range records {
		list[i] = state.Note{At: r.At, Kind: r.Kind, Text: r.Text}
	}
	return list
}

func (n *notes) close() error {
	if n == nil { // the server takes no notes
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		return nil
	}
	err := n.file.Close()
	n.file = nil
	return err
}
