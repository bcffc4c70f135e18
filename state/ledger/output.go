package ledger

import "time"

// OutputReason is why the directory of a turn was removed.
type OutputReason string

const (
	OutputExported  OutputReason = "exported"  // the record up to its events was exported, and the room was wanted
	OutputRetention OutputReason = "retention" // no event of the record refers to it any more
	OutputLimit     OutputReason = "limit"     // the limit that the operator set on the disk forced it
)

// ExpiredOutput is the directory of a turn that is gone. It is written before the directory is removed, once.
type ExpiredOutput struct {
	TurnID    string        `json:"turn_id"`
	AgentID   string        `json:"agent_id"`
	At        time.Time     `json:"expired_at"`
	Reason    OutputReason  `json:"reason"`
	SizeBytes int64         `json:"size_bytes"`
	Count     int           `json:"artifact_count"`      // files that the turn left, next to its own record
	Artifacts []ExpiredFile `json:"artifacts,omitempty"` // the first of them
}

// ExpiredFile is a file that went with the directory of its turn.
type ExpiredFile struct {
	Path      string `json:"path"` // relative to the turn's directory
	SizeBytes int64  `json:"size_bytes"`
	Digest    string `json:"digest"` // sha256:…
}

// OutputState is what the ledger says of the directory of a turn.
type OutputState string

const (
	OutputPinned       OutputState = "pinned"       // an event refers to it that was not exported
	OutputSaved        OutputState = "saved"        // every event that refers to it was exported
	OutputUnreferenced OutputState = "unreferenced" // no event refers to it
	OutputGone         OutputState = "gone"         // it is recorded as removed
)

func (e *ExpiredOutput) Row() Row {
	return Row{"expired_outputs", "expired output", 1, kept(&e.TurnID, &e.AgentID, e.At)}
}

// ReferredTurns returns the turns that events of an agent tell of, each with the number of the newest of these.
func (v View) ReferredTurns(agentID string) (map[string]int64, error) {
	newest := make(map[string]int64)
	err := v.Rows.Values(func(scan func(...any) error) error {
		var turn string
		var seq int64
		err := scan(&turn, &seq)
		newest[turn] = seq
		return err
	}, "turns of events", agentID)
	return newest, err
}

// ExpiredOutput returns what was recorded of the directory of a turn that is gone.
func (v View) ExpiredOutput(turnID string) (e ExpiredOutput, ok bool, err error) {
	return ifAny[ExpiredOutput](v, turnID)
}
