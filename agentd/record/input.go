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

// Input records durably that the user sent a message for the running turn, and again, with the item of the
// conversation, that the model receives it from the round on that in names. It may be called while the turn runs, and
// not any more when Commit or Abort is.
func (t *Turn) Input(in turns.Input, item responses.Item) error {
	if err := t.Acknowledged(); err != nil {
		return err
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	err := t.trajectory.input(in, item)
	if err == nil {
		err = t.publishInput(in)
	}
	if err != nil {
		return fmt.Errorf("record a message of the user: %w", err)
	}
	return nil
}

// publishInput makes what the trajectory says of a message durable, and has turn.json
// say it: a host may have nothing but that file. The trajectory comes first, so
// that no message counts as received that is not in the conversation.
func (t *Turn) publishInput(in turns.Input) error {
	rec := t.Record()
	rec.Inputs = withInput(slices.Clone(rec.Inputs), in) // others read the one they have
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	if err := t.trajectory.sync(); err != nil {
		return err
	}
	if err := durable.Replace(filepath.Join(t.Dir, turns.RecordFile), t.Shown(data)); err != nil {
		return err // settling has the trajectory
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.Inputs = rec.Inputs
	return nil
}

// withInput returns a list of messages in which one stands as it now is.
func withInput(list []turns.Input, in turns.Input) []turns.Input {
	if i := slices.IndexFunc(list, func(one turns.Input) bool { return one.ID == in.ID }); i >= 0 {
		list[i] = in
		return list
	}
	return append(list, in)
}

// input adds a line about a message of the user, with the item when the model
// receives it. When it cannot be written nothing of it stays: the turn may go on.
func (t *trajectory) input(in turns.Input, item responses.Item) error {
	before := t.size
	var raw json.RawMessage
	var err error
	if item != nil {
		raw, err = json.Marshal(item)
	}
	if err == nil {
		err = t.encode(line{Interjected: &in, Item: raw})
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
