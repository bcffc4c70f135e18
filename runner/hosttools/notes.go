package hosttools

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

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

// notes is the file with the notes of a run, one JSON object a line. It is made with the first note.
type notes struct {
	path string

	mu      sync.Mutex
	records []record
}

// openNotes reads the notes that there are and takes more.
func openNotes(path string) (*notes, error) {
	records, err := readNotes(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &notes{path: path, records: records}, nil
}

// ReadNotes reads the notes of a run that is no longer served.
func ReadNotes(path string) ([]state.Note, error) {
	records, err := readNotes(path)
	if err != nil {
		return nil, err
	}
	return shown(records), nil
}

// readNotes reads the whole lines of the file.
func readNotes(path string) (records []record, err error) {
	data, err := durable.ReadFile(path, maxNotesFile)
	if err != nil {
		return nil, fmt.Errorf("read the notes of the run: %w", err)
	}
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read the notes of the run: line %d: %w", len(records)+1, err)
		}
		records = append(records, r)
	}
	return records, nil
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
	if i := slices.IndexFunc(n.records, func(old record) bool { return old.CallID == callID }); i >= 0 {
		if n.records[i].Digest != r.Digest {
			return 0, errConflict
		}
		return i + 1, nil
	}
	if len(n.records) >= maxNotes {
		return 0, errFull
	}
	records := append(slices.Clip(n.records), r)
	var file bytes.Buffer
	lines := json.NewEncoder(&file)
	for _, r := range records {
		if err := lines.Encode(r); err != nil {
			return 0, fmt.Errorf("encode the notes: %w", err)
		}
	}
	if err := durable.WriteFile(n.path, file.Bytes(), durable.Private); err != nil {
		return 0, fmt.Errorf("write the notes: %w", err)
	}
	n.records = records
	return len(records), nil
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
