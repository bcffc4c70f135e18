package turnfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// hide takes secrets out of a file that has one JSON value.
func hide(path string, secrets *redact.Set) error {
	data, err := durable.ReadFile(path, responses.MaxResponse)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	clean := secrets.JSON(data, turns.Structure)
	if err == nil && !bytes.Equal(clean, data) {
		err = durable.WriteFile(path, clean, 0o600)
	}
	if err != nil {
		return fmt.Errorf("take secrets out of %s: %w", filepath.Base(path), err)
	}
	return nil
}

// hiding takes secrets out of the entries of a journal, also where a model's text has them in several deltas. An entry
// whose text may go on with the rest of a secret waits for the next ones.
type hiding struct {
	secrets *redact.Set
	put     func(key string, value []byte) error
	streams map[part]*redact.Stream
	waiting []*delta
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
	key   string
	value []byte
	text  []byte // what is shown of it
}

func (h *hiding) take(key string, value []byte) error {
	d := &delta{key: key}
	if !bytes.Contains(value, []byte(`.delta"`)) || json.Unmarshal(value, d) != nil ||
		!strings.HasSuffix(d.Type, ".delta") {
		if err := h.flush(); err != nil { // a part ends with any other event
			return err
		}
		return h.put(key, h.secrets.JSON(value, turns.Structure))
	}
	d.value = bytes.Clone(value)
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
		value := d.value
		if h.streams[d.part].Found() && string(d.text) != d.Delta {
			var err error
			if value, err = d.shown(); err != nil {
				return err
			}
		}
		if err := h.put(d.key, h.secrets.JSON(value, turns.Structure)); err != nil {
			return err
		}
	}
	h.waiting = nil
	clear(h.streams)
	return nil
}

// shown is the value with the text that is shown of it.
func (d *delta) shown() ([]byte, error) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(d.value, &members)
	if err == nil {
		members["delta"], err = json.Marshal(string(d.text))
	}
	if err != nil {
		return nil, err
	}
	if members["logprobs"] != nil {
		members["logprobs"] = json.RawMessage("[]")
	}
	return json.Marshal(members)
}
