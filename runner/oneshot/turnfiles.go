package oneshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/runner"
	"holon/runner/turnfiles"
	"holon/state/files"
)

// Codes of errors about what a run left.
const (
	CodeNoTurn      runner.Code = "no_turn"      // its turn left nothing yet
	CodeResultsGone runner.Code = "results_gone" // it has ended, and its results were moved or removed
)

// PatchOf returns where the change of a run that has ended lies, or CodeResultsGone.
func PatchOf(e *files.Entry) (string, error) {
	path := filepath.Join(e.OutputDir(), DiffFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", resultsGone(e, "put them back, or take the change with: holon checkout "+e.ID)
	}
	return path, nil
}

func resultsGone(e *files.Entry, hint string) error {
	return &runner.Error{Code: CodeResultsGone, Param: "run",
		Message: "the results of " + e.ID + " are no longer in " + e.OutputDir(), Hint: hint}
}

// OpenTurn opens the files of the run's turn: among the results once it has ended, next to its container before. A turn
// that left none is CodeNoTurn, or CodeResultsGone once it has ended.
func OpenTurn(e *files.Entry) (*turnfiles.Files, error) {
	turn, err := openTurn(e)
	if errors.Is(err, fs.ErrNotExist) && e.Manifest != nil {
		return nil, resultsGone(e, "put them back; what is known without them: holon show "+e.ID)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &runner.Error{Code: CodeNoTurn, Param: "run",
			Message: "the turn of " + e.ID + " has left nothing yet",
			Hint:    "try again later; holon ps shows the run"}
	}
	if err != nil {
		return nil, fmt.Errorf("open the turn of %s: %w", e.ID, err)
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
