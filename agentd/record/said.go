package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// Offer records durably that the user sent a message for the running turn. It may
// be called while the turn runs, and not any more when Commit or Abort is.
func (t *Turn) Offer(in turns.Input) error {
	if err := t.Acknowledged(); err != nil {
		return err
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.trajectory.said(in, nil); err != nil {
		return fmt.Errorf("record a message of the user: %w", err)
	}
	return t.heard(in)
}

// Insert records durably that the model is told such a message, as item, from the
// round on that in names.
func (t *Turn) Insert(in turns.Input, item responses.Item) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := t.trajectory.said(in, item); err != nil {
		return fmt.Errorf("record a message of the user: %w", err)
	}
	return t.heard(in)
}

// heard makes what the trajectory says of a message durable, and has turn.json
// say it: a host may have nothing but that file. The trajectory comes first, so
// that no message counts as told that is not in the conversation.
func (t *Turn) heard(in turns.Input) error {
	rec := t.Record()
	rec.Inputs = slices.Clone(rec.Inputs) // others read the one they have
	if i := slices.IndexFunc(rec.Inputs, func(known turns.Input) bool { return known.ID == in.ID }); i >= 0 {
		rec.Inputs[i] = in
	} else {
		rec.Inputs = append(rec.Inputs, in)
	}
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	err = t.trajectory.sync()
	if err == nil {
		err = durable.Replace(filepath.Join(t.Dir, turns.RecordFile), t.Shown(data)) // settling has the trajectory
	}
	if err != nil {
		return fmt.Errorf("record a message of the user: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.Inputs = rec.Inputs
	return nil
}

// said adds a line about a message of the user, with the item when the model is
// told it. When it cannot be written nothing of it stays: the turn may go on.
func (t *trajectory) said(in turns.Input, item responses.Item) error {
	before := t.size
	var raw json.RawMessage
	var err error
	if item != nil {
		raw, err = json.Marshal(item)
	}
	if err == nil {
		err = t.encode(line{Said: &in, Item: raw})
	}
	if err == nil {
		err = t.write()
	}
	if err != nil {
		if t.size == before {
			return err
		}
		t.size, t.sum = before, nil // which has what is taken back
		return errors.Join(err, t.file.Truncate(before))
	}
	if item != nil {
		t.items = append(t.items, item)
	}
	return nil
}
