package record

import (
	"fmt"

	"holon/internal/redact"
)

// Hide keeps values that a tool told the model out of all that is read of this turn and of later ones: facts, stream,
// record, stored response. The conversation keeps them, since the model is told it again, and it has a note of them,
// with which the next process has them when it reads the conversation.
func (t *Turn) Hide(values []string) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.store.addHidden(values)
	err := t.trajectory.encode(line{Hidden: values})
	if err == nil {
		err = t.trajectory.write()
	}
	if err != nil {
		return fmt.Errorf("record what is hidden: %w", err)
	}
	return nil
}

func (s *Store) addHidden(values []string) {
	for _, value := range values {
		s.hidden.Add("", value) // one that is too short to be found stays
	}
}

// Conceal returns JSON without the values that tools told models to keep, and that Hide was told of.
func (s *Store) Conceal(data []byte, constants ...redact.Constants) []byte {
	return s.hidden.JSON(data, append(constants, s.words)...)
}

// Shown returns JSON of the turn as it is read by others than its model.
func (t *Turn) Shown(data []byte) []byte {
	data = t.trajectory.clean(data)
	if t.store.hidden.Empty() {
		return data
	}
	return t.store.Conceal(data, t.trajectory.names())
}
