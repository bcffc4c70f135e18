package oneshot

import (
	"errors"
	"fmt"
	"io/fs"

	"holon/runner"
	"holon/runner/turnfiles"
	"holon/state/files"
)

// CodeNoTurn is the code of an error about a run whose turn left nothing yet.
const CodeNoTurn runner.Code = "no_turn"

// OpenTurn opens the files of the run's turn: among the results once it has ended, next to its container before. A turn
// that left none is CodeNoTurn.
func OpenTurn(e *files.Entry) (*turnfiles.Files, error) {
	turn, err := openTurn(e)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &runner.Error{Code: CodeNoTurn, Param: "run",
			Message: "the turn of run " + e.ID + " has left nothing yet",
			Hint:    "try again later; holon ps shows the run"}
	}
	if err != nil {
		return nil, fmt.Errorf("open the turn of run %s: %w", e.ID, err)
	}
	return turn, nil
}

func openTurn(e *files.Entry) (*turnfiles.Files, error) {
	if e.Manifest != nil {
		return turnfiles.OpenCollected(e.OutputDir())
	}
	rec, err := runner.ReadRunRecord(e.Dir)
	if err != nil {
		return nil, err
	}
	return turnfiles.Open(rec.Dir, rec.TurnID)
}
