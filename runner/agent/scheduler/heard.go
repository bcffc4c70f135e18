package scheduler

import (
	"encoding/json"
	"strings"

	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
)

// recordHeard writes in the transcript, where the turn took it in, a message that was offered to it.
func (s *step) recordHeard(a ledger.Attempt, e ledger.Event) error {
	id, err := s.interjection(a, e)
	if err != nil || id == "" {
		return err
	}
	return s.hear(a, id)
}

// interjection is the message, bound to the turn of an attempt, that an event of input is about; "" for none.
func (s *step) interjection(a ledger.Attempt, e ledger.Event) (string, error) {
	var heard turns.Heard
	if !strings.HasPrefix(e.Class, "holon.input.") || json.Unmarshal(e.Data, &heard) != nil {
		return "", nil
	}
	held, err := s.Held(a.ID)
	for _, entry := range held {
		if entry.Interjects && entry.MessageID == heard.InputID {
			return heard.InputID, nil
		}
	}
	return "", err
}

// hear writes in the transcript, once, that the turn of an attempt took in a message.
func (s *step) hear(a ledger.Attempt, messageID string) error {
	e := s.transcript(a, ledger.TranscriptEntry{Kind: ledger.TranscriptMessage, MessageID: messageID})
	e.ID = derivedID(prefixTranscript, a.ID, messageID)
	if err := s.Insert(e); err != nil && !state.IsCode(err, ledger.CodeConflict) {
		return err
	}
	return nil
}
