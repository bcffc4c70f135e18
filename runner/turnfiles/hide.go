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
	"path/filepath"
	"strings"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// Hide takes known secrets out of the record of a turn that was collected into dir: those that its container does not
// know, such as keys of providers. They are found also where a model's text has them in several deltas. A file without
// any stays as it is.
func Hide(dir string, secrets *redact.Set) error {
	if secrets.Empty() {
		return nil
	}
	for _, name := range turnNames {
		hidden, err := hide(filepath.Join(dir, name), secrets)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take secrets out of %s: %w", name, err)
		}
		if hidden && name == turns.JournalFile {
			if err := project(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// hide takes secrets out of one file, and reports whether there were any.
func hide(path string, secrets *redact.Set) (hidden bool, err error) {
	in, err := openOwn(path, 0)
	if err != nil {
		return false, err
	}
	defer in.Close()
	if !strings.HasSuffix(path, ".ndjson") {
		data, err := io.ReadAll(io.LimitReader(in, responses.MaxResponse))
		clean := secrets.JSON(data, turns.Structure)
		if err != nil || bytes.Equal(clean, data) {
			return false, err
		}
		return true, durable.WriteFile(path, clean, 0o600)
	}
	out, err := os.CreateTemp(filepath.Dir(path), durable.TempPrefix+"*")
	if err != nil {
		return false, err
	}
	h := hiding{secrets: secrets, out: bufio.NewWriterSize(out, 64<<10), streams: make(map[part]*redact.Stream)}
	err = h.lines(in)
	if err == nil && h.changed {
		err = errors.Join(h.out.Flush(), out.Sync())
	}
	err = errors.Join(err, out.Close())
	if err == nil && h.changed {
		return true, os.Rename(out.Name(), path)
	}
	return false, errors.Join(err, os.Remove(out.Name()))
}

// hiding copies the lines of a journal. A line whose text may go on with the rest of a secret waits for the next ones.
type hiding struct {
	secrets *redact.Set
	out     *bufio.Writer
	streams map[part]*redact.Stream
	waiting []*delta
	changed bool
}

// part is a text that comes in deltas.
type part struct {
	Type         string `json:"type"`
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
	SummaryIndex int    `json:"summary_index"`
}

// delta is an entry with a piece of a part.
type delta struct {
	part
	Delta string `json:"delta"`
	entry
	text []byte // what is shown of it
}

// entry is a line of a journal.
type entry struct {
	seq  int64
	key  string
	line []byte // its value
}

func (h *hiding) lines(in *os.File) error {
	lines := lineReader{in: bufio.NewReaderSize(in, 64<<10), most: responses.MaxResponse}
	for {
		line, err := lines.next()
		switch {
		case lines.left > 0:
			return fmt.Errorf("a line has more than %d bytes", lines.most)
		case errors.Is(err, io.EOF):
			return h.flush()
		case err != nil:
			return err
		}
		d := delta{}
		if d.seq, d.key, line, _ = turns.CutEntry(line); d.key == "" {
			continue // agentd did not write it
		}
		d.line = bytes.Clone(line)
		if bytes.Contains(line, []byte(`.delta"`)) && json.Unmarshal(line, &d) == nil &&
			strings.HasSuffix(d.Type, ".delta") {
			err = h.piece(&d)
		} else if err = h.flush(); err == nil { // a part ends with any other event
			err = h.write(d.entry, h.secrets.JSON(line, turns.Structure))
		}
		if err != nil {
			return err
		}
	}
}

// piece takes a delta in.
func (h *hiding) piece(d *delta) error {
	stream := h.streams[d.part]
	if stream == nil {
		stream = h.secrets.Stream()
		h.streams[d.part] = stream
	}
	d.text = bytes.Clone(stream.Next([]byte(d.Delta)))
	h.waiting = append(h.waiting, d)
	for _, s := range h.streams {
		if s.Holds() {
			return nil
		}
	}
	return h.flush()
}

// flush writes what waits. What follows the last secret of a part, and may have begun another, goes to its last line;
// a part without one stays as it is.
func (h *hiding) flush() error {
	last := make(map[part]*delta)
	for _, d := range h.waiting {
		last[d.part] = d
	}
	for p, d := range last {
		d.text = append(d.text, h.streams[p].Rest()...)
	}
	for _, d := range h.waiting {
		if !h.streams[d.part].Found() {
			d.text = []byte(d.Delta)
		}
		if err := h.writeDelta(d); err != nil {
			return err
		}
	}
	h.waiting = nil
	clear(h.streams)
	return nil
}

// writeDelta writes a line with the text that is shown of it.
func (h *hiding) writeDelta(d *delta) error {
	line := d.line
	if string(d.text) != d.Delta {
		var members map[string]json.RawMessage
		err := json.Unmarshal(line, &members)
		if err == nil {
			members["delta"], err = json.Marshal(string(d.text))
		}
		if err == nil && members["logprobs"] != nil {
			members["logprobs"] = json.RawMessage("[]")
		}
		if err == nil {
			line, err = json.Marshal(members)
		}
		if err != nil {
			return err
		}
	}
	return h.write(d.entry, h.secrets.JSON(line, turns.Structure))
}

// write writes an entry with another value.
func (h *hiding) write(e entry, value []byte) error {
	h.changed = h.changed || !bytes.Equal(value, e.line)
	_, err := h.out.Write(turns.AppendEntry(nil, e.seq, e.key, value))
	return err
}
