package state

import (
	"fmt"
	"strings"

	"holon/responses"
	"holon/responses/turns"
)

// NewRunID returns an id that no other run has. It begins with random letters and digits, so that a few of them tell
// runs of the same day apart, and ends with the time; ids do not sort by it.
func NewRunID() string {
	const timeLength = 10 // of responses.NewID, which has the time first
	id := strings.TrimPrefix(responses.NewID(responses.PrefixRun), responses.PrefixRun)
	return responses.PrefixRun + id[timeLength:] + id[:timeLength]
}

// CheckRunID reports whether id can be a run's: "run_" and at least one more
// letter, digit, '_' or '-', 128 in all at most. A valid id is a safe file
// name. The error is an *Error with CodeInvalidRunID.
func CheckRunID(id string) error {
	if err := responses.CheckID("run", id); err != nil {
		return &Error{Code: CodeInvalidRunID, Param: "run", Message: fmt.Sprintf("%.80q is not the id of a run", id),
			Hint: "'last' names the latest run", Err: err}
	}
	if len(id) <= len(responses.PrefixRun) || !strings.HasPrefix(id, responses.PrefixRun) {
		return &Error{Code: CodeInvalidRunID, Param: "run", Message: fmt.Sprintf("%.80q is not the id of a run", id),
			Hint: "ids begin with " + responses.PrefixRun + "; 'last' names the latest run"}
	}
	return nil
}

// StartSchema is the value of "schema" in every run.json of this version.
const StartSchema = "holon.run-start/1"

// Start is run.json: what is known of a run before it begins. It is written
// once, before anything is started, so that a process that finds the run after a
// crash knows what it was and where its results would be.
type Start struct {
	Schema    string     `json:"schema"`
	RunID     string     `json:"run_id"`
	Name      string     `json:"name"` // given by the user, may be empty
	CreatedAt turns.Time `json:"created_at"`
	OutputDir string     `json:"output_dir"` // absolute; the run's own directory unless the user chose one
	Source    string     `json:"source"`     // absolute path of what is worked on, may be empty
	PID       int        `json:"pid"`        // of the process that began it, for people only
}

// Status says how a run ended. Being live is not among the stored ones.
type Status string

// The statuses of a Manifest.
const (
	StatusCompleted   Status = "completed"   // the turn came to its end
	StatusIncomplete  Status = "incomplete"  // a limit ended the turn; its work so far is kept
	StatusFailed      Status = "failed"      // an error ended it
	StatusCancelled   Status = "cancelled"   // someone ended it
	StatusInterrupted Status = "interrupted" // it was cut off: by a crash, a kill or a lost container
)

// StatusRunning is what a live lease means. It is shown and never stored.
const StatusRunning Status = "running"

// StatusOrphaned is shown of a run whose holon was killed and that was not
// settled since: it has no holder and no end, and it may hold a container and
// unsaved work. It is never stored.
const StatusOrphaned Status = "orphaned"

// Terminal reports whether s may stand in a Manifest.
func (s Status) Terminal() bool {
	switch s {
	case StatusCompleted, StatusIncomplete, StatusFailed, StatusCancelled, StatusInterrupted:
		return true
	}
	return false
}

// Outcome says what a run means to its caller. Each has one exit code.
type Outcome string

// The outcomes of a Manifest.
const (
	OutcomeSuccess   Outcome = "success"   // exit code 0
	OutcomeFailure   Outcome = "failure"   // 1
	OutcomeWaiting   Outcome = "waiting"   // 3: it needs the operator
	OutcomeRefused   Outcome = "refused"   // 4: it was refused or could not start
	OutcomeDeadline  Outcome = "deadline"  // 124
	OutcomeCancelled Outcome = "cancelled" // 130: someone ended it
)

// ExitCode returns the exit code of holon run for o; an unknown outcome is a
// failure.
func (o Outcome) ExitCode() int {
	switch o {
	case OutcomeSuccess:
		return 0
	case OutcomeWaiting:
		return 3
	case OutcomeRefused:
		return 4
	case OutcomeDeadline:
		return 124
	case OutcomeCancelled:
		return 130
	}
	return 1
}

func (o Outcome) known() bool { return o.ExitCode() != 1 || o == OutcomeFailure }
