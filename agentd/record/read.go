package record

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"holon/internal/durable"
	"holon/responses"
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

// Totals are what only the end of a turn knows.
type Totals struct {
	Rounds    int
	ToolCalls turns.ToolCalls
	Attempts  turns.ProviderTimeline // at models
	Failure   *turns.FailureArtifact // nil: what the response's error says
}

// count takes in one fact.
func (t *Totals) count(ev turns.RuntimeEvent) {
	var p struct {
		ToolName string                 `json:"tool_name"`
		Host     string                 `json:"host"`
		Round    int                    `json:"round"`
		Attempt  *turns.ProviderAttempt `json:"provider_attempt"`
	}
	_ = json.Unmarshal(ev.Payload, &p) // a call without a name counts all the same
	switch ev.Type {
	case turns.ModelCompleted, turns.ModelFailed:
		if p.Attempt != nil {
			t.Attempts.Add(*p.Attempt)
		}
	case turns.ModelRequested: // one attempt of possibly several in its round
		t.Rounds = max(t.Rounds, p.Round)
	case turns.ToolResult, turns.ToolFailed:
		if p.Host != turns.HostClient {
			t.ToolCalls.Add(p.ToolName, ev.Type == turns.ToolFailed)
		}
	}
}

// settle completes a record with the end of its turn.
func (t *Totals) settle(rec *turns.Record, resp *responses.Response, now time.Time) {
	requested := rec.Model
	if known := rec.ProviderAttempts; known != nil {
		requested = known.RequestedModelRef
	}
	rec.Settle(resp, now)
	rec.Rounds, rec.ToolCalls = t.Rounds, t.ToolCalls
	if timeline := t.Attempts; len(timeline.Attempts) > 0 {
		timeline.RequestedModelRef = requested
		rec.ProviderAttempts = &timeline
	}
	if t.Failure != nil && rec.FailureArtifact != nil {
		rec.FailureArtifact = t.Failure
	}
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
