package turnfiles

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"holon/responses"
	"holon/responses/turns"
)

// Bounds of what is read of a turn: its record, the event that ends it, which holds
// the whole response, and a line of its facts.
const (
	maxRecordFile = 8 << 20
	maxLastEvent  = responses.MaxResponse
	maxFactLine   = 256 << 10
)

// errForged is the reason for a turn whose files cannot be what agentd wrote.
var errForged = errors.New("the turn's files are not what agentd writes")

// Read reads what a turn left below the directory of its session: its record, and its final response when it has one.
// fs.ErrNotExist says that agentd never accepted such a turn.
func Read(sessionDir, turnID string) (*turns.Record, *responses.Response, error) {
	return readWith(sessionDir, turnID, (*Files).read)
}

// ReadRecord is Read without the final response.
func ReadRecord(sessionDir, turnID string) (*turns.Record, error) {
	rec, _, err := readWith(sessionDir, turnID, func(t *Files) (*turns.Record, *responses.Response, error) {
		rec, err := t.record()
		return rec, nil, err
	})
	return rec, err
}

func readWith(sessionDir, turnID string,
	read func(*Files) (*turns.Record, *responses.Response, error)) (*turns.Record, *responses.Response, error) {
	if err := responses.CheckID("turn_id", turnID); err != nil {
		return nil, nil, err
	}
	files, err := Open(sessionDir, turnID)
	if err != nil {
		return nil, nil, fmt.Errorf("open the turn's directory: %w", err)
	}
	defer files.Close()
	rec, end, err := read(files)
	if rec != nil && rec.TurnID != turnID {
		return nil, nil, fmt.Errorf("%w: it is the record of another turn", errForged)
	}
	return rec, end, err
}

// Accepted returns the id of the response of a turn that agentd has stored and of which it has recorded nothing,
// because it was killed in this moment; "" for none. The next agentd ends the turn.
func Accepted(sessionDir, turnID string) (responseID string) {
	dir, err := openState(sessionDir, turns.OpenDir)
	if err != nil {
		return ""
	}
	defer dir.Close()
	entries, _ := fs.ReadDir(dir.FS(), ".") // those that can be read
	for _, e := range entries {
		if id := acceptedIn(dir, e.Name(), turnID); id != "" {
			return id
		}
	}
	return ""
}

func acceptedIn(dir *os.Root, name, turnID string) (responseID string) {
	f, err := openReadable(dir, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var first struct {
		Header struct {
			ResponseID string `json:"response_id"`
			TurnID     string `json:"turn_id"`
		} `json:"header"`
	}
	err = json.NewDecoder(io.LimitReader(f, responses.MaxResponse)).Decode(&first)
	if id := first.Header.ResponseID; err == nil && first.Header.TurnID == turnID &&
		responses.CheckID("response_id", id) == nil {
		return id
	}
	return ""
}

// read reads the turn's record and, when that has an end, its final response.
func (t *Files) read() (*turns.Record, *responses.Response, error) {
	rec, err := t.record()
	if err != nil || !rec.Status.Terminal() {
		return rec, nil, err
	}
	end, err := t.end(rec)
	return rec, end, err
}

// record reads turn.json, or where there is none yet, what the first facts say: agentd writes it when the turn ends.
func (t *Files) record() (*turns.Record, error) {
	f, err := t.Open(turns.RecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return t.begun()
	}
	if err != nil {
		return nil, fmt.Errorf("open the turn's record: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecordFile+1))
	if err == nil && len(data) > maxRecordFile {
		err = errForged
	}
	if err != nil {
		return nil, fmt.Errorf("read the turn's record: %w", err)
	}
	rec, err := turns.DecodeRecord(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForged, err)
	}
	return rec, nil
}

// begun reads the record of a turn that has none yet from its first facts. fs.ErrNotExist: it has no fact either.
func (t *Files) begun() (*turns.Record, error) {
	f, err := t.Open(turns.JournalFile)
	if err != nil {
		return nil, fmt.Errorf("open the turn's journal: %w", err)
	}
	defer f.Close()
	lines := lineReader{in: bufio.NewReader(f), most: maxFactLine}
	submitted, err := nextFact(&lines)
	if err == nil && submitted.Type == turns.ThreadStarted {
		submitted, err = nextFact(&lines)
	}
	if err != nil {
		return nil, err
	}
	rec, err := turns.RecordOf(submitted)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForged, err)
	}
	if started, err := nextFact(&lines); err == nil {
		rec.Start(started)
	}
	return rec, nil
}

// nextFact reads the next fact of a journal.
func nextFact(lines *lineReader) (turns.RuntimeEvent, error) {
	for {
		line, err := lines.next()
		if err == io.EOF {
			return turns.RuntimeEvent{}, fmt.Errorf("the turn has no fact: %w", fs.ErrNotExist)
		}
		if err != nil {
			return turns.RuntimeEvent{}, fmt.Errorf("read the turn's journal: %w", err)
		}
		_, key, value, ok := turns.CutEntry(line)
		if ok && key == turns.EntryStream {
			continue
		}
		ev, err := turns.DecodeRuntimeEvent(value)
		if err != nil {
			return turns.RuntimeEvent{}, fmt.Errorf("%w: %w", errForged, err)
		}
		return ev, nil
	}
}

// end reads the final response from the last event of the turn.
func (t *Files) end(rec *turns.Record) (*responses.Response, error) {
	f, err := t.Open(turns.JournalFile)
	if err != nil {
		return nil, fmt.Errorf("open the turn's journal: %w", err)
	}
	defer f.Close()
	line, err := lastEvent(f)
	if err != nil {
		return nil, fmt.Errorf("read the turn's last event: %w", err)
	}
	ev, err := responses.DecodeEvent(line)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForged, err)
	}
	if ev.Response == nil || ev.Response.ID != rec.ResponseID || !ev.Response.Status.Terminal() {
		return nil, fmt.Errorf("%w: the last event does not end the turn", errForged)
	}
	return ev.Response, nil
}

// lastEvent reads the last event of the stream in a journal from its end.
func lastEvent(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for size := int64(64 << 10); ; size *= 8 {
		size = min(size, info.Size(), maxLastEvent)
		tail := make([]byte, size)
		n, err := f.ReadAt(tail, info.Size()-size)
		if err != nil && err != io.EOF {
			return nil, err
		}
		rest := tail[:bytes.LastIndexByte(tail[:n], '\n')+1] // it may have been cut since
		for len(rest) > 0 {
			at := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
			if at == 0 && size < info.Size() {
				break // the line began before
			}
			_, key, value, ok := turns.CutEntry(rest[at:])
			switch {
			case !ok:
				return nil, errForged
			case key == turns.EntryStream:
				return value, nil
			}
			rest = rest[:at]
		}
		if size == info.Size() {
			return nil, fmt.Errorf("%w: the journal has no event", errForged)
		}
		if size == maxLastEvent {
			return nil, fmt.Errorf("%w: the last event has more than %d bytes", errForged, maxLastEvent)
		}
	}
}
