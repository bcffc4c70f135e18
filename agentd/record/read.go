package record

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"holon/internal/durable"
	"holon/responses/turns"
)

// maxRecord bounds turn.json, which lists at most maxArtifacts files.
const maxRecord = 64 << 20

// ReadRecord reads and checks the turn.json of a turn directory. Commands of
// the turn may have put anything there.
func ReadRecord(dir string) (*turns.Record, error) {
	data, err := durable.ReadFile(filepath.Join(dir, turns.RecordFile), maxRecord)
	if err != nil {
		return nil, fmt.Errorf("read the turn record: %w", err)
	}
	return turns.DecodeRecord(data)
}

// writeFailure writes the failure file of a turn that failed. It is written before the record that refers to it.
func (s *Store) writeFailure(dir string, rec *turns.Record) error {
	report := rec.FailureReport()
	if report == nil {
		return nil
	}
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the failure: %w", err)
	}
	return durable.WriteFile(filepath.Join(dir, turns.FailureFile), append(s.Conceal(s.secrets.JSON(data, s.words)), '\n'),
		durable.Private)
}
