package state

// Check is what became of the check of a run: a command that ran in a fresh container with the result of the run.
type Check struct {
	Command    string      `json:"command"`
	RunID      string      `json:"run_id"` // of the part of the run that it was; its directory has the whole output
	Status     CheckStatus `json:"status"`
	ExitCode   *int        `json:"exit_code"` // of the command; null unless it ended by itself
	DurationMS int64       `json:"duration_ms"`
	Output     string      `json:"output"`   // the end of it
	Restored   []string    `json:"restored"` // files that the run changed and the check saw as they were at the base
	Changed    []string    `json:"changed"`  // files that may decide how the check runs, as the run changed them
	Unused     []string    `json:"unused"`   // patterns of the operator that fit no file of base or result
	Error      *Failure    `json:"error"`    // why it is neither passed nor failed
}

// CheckStatus says how a check ended.
type CheckStatus string

// The statuses of a Check.
const (
	CheckPassed  CheckStatus = "passed"  // exit code 0
	CheckFailed  CheckStatus = "failed"  // another exit code
	CheckChanged CheckStatus = "changed" // exit code 0, with files of the command that the run changed
	CheckTimeout CheckStatus = "timeout" // it was ended, as it took too long
	CheckLimit   CheckStatus = "limit"   // it was ended, as it printed or wrote too much
	CheckNotRun  CheckStatus = "not_run" // or its end is not known
)

// Attempt is one of the runs that a run made of the same task. Its own manifest, by RunID, has the rest.
type Attempt struct {
	Number  int      `json:"attempt"` // from 1
	RunID   string   `json:"run_id"`
	Model   string   `json:"model"`
	Status  Status   `json:"status"`   // "" before its end, and if it never began
	Outcome Outcome  `json:"outcome"`  // with the check
	Error   *Failure `json:"error"`    // null for success
	Files   int      `json:"files"`    // that it changed
	Lines   int      `json:"lines"`    // that it added and deleted
	Result  string   `json:"result"`   // git id of its files; equal ones are the same result
	Took    int64    `json:"total_ms"` // with the check
	Rank    int      `json:"rank"`     // 1 is the best, equal ones are a tie; 0: it was not checked
	Checked *Check   `json:"check"`    // null if it was not checked
}

// Judge is what was asked which of several equal attempts is the best.
type Judge struct {
	RunID  string   `json:"run_id"`
	Model  string   `json:"model"`
	Choice int      `json:"choice"` // number of the attempt; 0: none, Error says why
	Error  *Failure `json:"error"`
}
