package record

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"holon/responses/turns"
)

// maxRecord bounds turn.json, which lists at most maxArtifacts files.
const maxRecord = 64 << 20

// ReadRecord reads and checks the turn.json of a turn directory. Commands of
// the turn may have put anything there.
func ReadRecord(dir string) (*turns.Record, error) {
	f, err := openRegular(filepath.Join(dir, turns.RecordFile))
	if err != nil {
		return nil, fmt.Errorf("read the turn record: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, fmt.Errorf("read the turn record: %w", err)
	}
	return turns.DecodeRecord(data)
}

// Totals are what only the end of a turn knows.
type Totals struct {
	Rounds    int
	ToolCalls turns.ToolCalls
}

// count takes in one fact.
func (t *Totals) count(ev turns.RuntimeEvent) {
	var p struct {
		ToolName string `json:"tool_name"`
		Round    int    `json:"round"`
	}
	_ = json.Unmarshal(ev.Payload, &p) // a call without a name counts all the same
	switch ev.Type {
	case turns.ModelRequested: // one attempt of possibly several in its round
		t.Rounds = max(t.Rounds, p.Round)
	case turns.ToolResult, turns.ToolFailed:
		t.ToolCalls.Add(p.ToolName, ev.Type == turns.ToolFailed)
	}
}
