package scheduler

import (
	"encoding/json"

	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
)

// recordHeard writes in the transcript, where the turn took it in, a message that was offered to it.
func (s *step) recordHeard(a ledger.Attempt, e ledger.Event) error {
	var heard turns.Heard
	if json.Unmarshal(e.Data, &heard) != nil {
		return nil
	}
	held, err := s.Held(a.ID)
	for _, entry := range held {
		if entry.Interjects && entry.MessageID == heard.InputID {
			return s.hear(a, heard.InputID)
		}
	}
	return err
}

// hear writes in the transcript, once, that the turn of an attempt took in a message.
func (s *step) hear(a ledger.Attempt, messageID string) error {
	e := s.transcript(a, ledger.TranscriptEntry{Kind: ledger.TranscriptMessage, MessageID: messageID})
	e.ID = derivedID(prefixTranscript, a.ID, messageID)
	if err := s.InsertTranscript(e); err != nil && !state.IsCode(err, ledger.CodeConflict) {
		return err
	}
	return nil
}
