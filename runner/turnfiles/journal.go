package turnfiles

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// journal is the journal of a turn that was collected, while it is written anew with what the host adds. The container
// wrote it: what agentd cannot have written, and half a line at the end, is left out.
type journal struct {
	lines lineReader
	out   map[string]*bufio.Writer // by key of the entry; "" for the journal
	seq   int64                    // of the newest line
	hide  *hiding                  // nil: nothing

	progress turns.Progress // what the facts say
	text     int64          // bytes that models said
	ended    bool           // the facts have the end of the turn
	place    turns.Scope    // runtime and thread of the facts
}

// files are the names of the files by the key of the entries that they hold.
var files = map[string]string{"": turns.JournalFile, turns.EntryStream: turns.EventsFile,
	turns.EntryRuntime: turns.RuntimeFile}

// rewrite replaces the journal in dir, which need not be there, and the files of its kinds with what fill writes. A
// holon that is killed meanwhile leaves the journal as it was.
func rewrite(dir string, secrets *redact.Set, fill func(*journal) error) (err error) {
	in, err := durable.Open(filepath.Join(dir, turns.JournalFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open the turn's journal: %w", err)
	}
	defer in.Close() // also of nil
	j := newJournal(in, secrets)
	made := make(map[string]*os.File)
	defer func() {
		for _, f := range made { // those that were not renamed
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	for key := range files {
		f, err := os.CreateTemp(dir, durable.TempPrefix+"*")
		if err != nil {
			return fmt.Errorf("write the turn's journal: %w", err)
		}
		made[key], j.out[key] = f, bufio.NewWriterSize(f, 64<<10)
	}
	err = fill(j)
	if err == nil && j.hide != nil {
		err = j.hide.flush()
	}
	if err != nil {
		return fmt.Errorf("complete the turn's journal: %w", err)
	}
	for _, key := range []string{turns.EntryStream, turns.EntryRuntime, ""} { // the journal last, from which they follow
		f := made[key]
		err := errors.Join(j.out[key].Flush(), f.Sync(), os.Rename(f.Name(), filepath.Join(dir, files[key])))
		if err != nil {
			return fmt.Errorf("write the turn's journal: %w", err)
		}
		delete(made, key)
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// newJournal reads from in, nil for nothing.
func newJournal(in *os.File, secrets *redact.Set) *journal {
	var from io.Reader = in
	if in == nil {
		from = bytes.NewReader(nil)
	}
	j := &journal{lines: lineReader{in: bufio.NewReaderSize(from, 64<<10), most: responses.MaxResponse},
		out: make(map[string]*bufio.Writer)}
	if !secrets.Empty() {
		j.hide = &hiding{secrets: secrets, put: j.put, streams: make(map[part]*redact.Stream)}
	}
	return j
}

// copy copies what the container wrote, but for lines that are too long. Events of the stream are checked where take is
// not nil, which gets each.
func (j *journal) copy(take func(responses.Event) bool) error {
	for {
		line, err := j.lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		_, key, value, ok := turns.CutEntry(line)
		switch {
		case !ok:
		case key == turns.EntryRuntime:
			err = j.note(value)
		case take != nil:
			ev, invalid := responses.DecodeEvent(value)
			if invalid != nil || !take(ev) {
				return invalid
			}
			fallthrough
		default:
			err = j.write(key, value)
		}
		if err != nil {
			return err
		}
	}
}

// ofHost reports whether only the host can record a fact: of connections, and of what all of a turn cost.
func ofHost(ev turns.RuntimeEvent) bool {
	return strings.HasPrefix(ev.Type, "holon.egress.") || ev.Type == turns.CostRecorded && ev.ModelRequestID == ""
}

// note writes a fact of the container in the form in which it was understood, and notes what it says.
func (j *journal) note(value []byte) error {
	const plausible = 1 << 53 // a greater number does not count lines
	ev, err := turns.DecodeRuntimeEvent(value)
	if err != nil || ofHost(ev) {
		return nil //nolint:nilerr // it is left out
	}
	if ev.Sequence < plausible {
		j.progress.Take(ev)
	}
	if ev.ThreadID != "" {
		j.place = turns.Scope{RuntimeID: ev.RuntimeID, ThreadID: ev.ThreadID}
	}
	j.ended = j.ended || ev.Type == turns.TurnCompleted || ev.Type == turns.TurnFailed
	if value, err = ev.MarshalJSON(); err != nil {
		return err
	}
	return j.write(turns.EntryRuntime, value)
}

func (j *journal) facts(list []turns.RuntimeEvent) error {
	for _, ev := range list {
		if err := j.fact(ev); err != nil {
			return err
		}
	}
	return nil
}

// fact appends a fact of the host, with the next number and the thread of those before.
func (j *journal) fact(ev turns.RuntimeEvent) error {
	ev.RuntimeID, ev.ThreadID = cmp.Or(j.place.RuntimeID, ev.RuntimeID), cmp.Or(j.place.ThreadID, ev.ThreadID)
	ev = j.progress.Next(ev)
	value, err := ev.MarshalJSON()
	if err != nil {
		return err
	}
	return j.write(turns.EntryRuntime, value)
}

func (j *journal) write(key string, value []byte) error {
	if j.hide != nil {
		return j.hide.take(key, value)
	}
	return j.put(key, value)
}

func (j *journal) put(key string, value []byte) error {
	j.seq++
	_, err := j.out[""].Write(turns.AppendEntry(nil, j.seq, key, value))
	if err == nil {
		_, err = j.out[key].Write(append(value[:len(value):len(value)], '\n'))
	}
	return err
}
