package oneshot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"holon/runner"
	"holon/runner/sessions"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/state/files"
)

// Codes of errors about what a run left.
const (
	CodeNoTurn      runner.Code = "no_turn"      // its turn left nothing yet
	codeResultsGone runner.Code = "results_gone" // it has ended, and its results were moved or removed

	codeResultsChanged runner.Code = "results_changed" // they are not what the run recorded
)

// PatchOf returns where the change of a run that has ended lies, as OpenPatch found it.
func PatchOf(e *files.Entry) (string, error) {
	patch, err := OpenPatch(e)
	if err != nil {
		return "", err
	}
	return patch.Name(), patch.Close()
}

// OpenPatch opens the change of a run that has ended. It is a regular file, reached through no link in its place, with
// the digest that the run recorded: else codeResultsChanged, or codeResultsGone.
func OpenPatch(e *files.Entry) (_ *os.File, err error) {
	path := filepath.Join(e.OutputDir(), DiffFile)
	patch, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	hint := "put them back, or take the change with: holon checkout " + e.ID
	if errors.Is(err, fs.ErrNotExist) {
		return nil, resultsGone(e, hint)
	}
	changed := &runner.Error{Code: codeResultsChanged, Param: "run", Hint: hint}
	if errors.Is(err, syscall.ELOOP) {
		changed.Message = path + " is a link"
		return nil, changed
	}
	if err != nil {
		return nil, fmt.Errorf("open the patch: %w", err)
	}
	defer func() {
		if err != nil {
			_ = patch.Close()
		}
	}()
	if info, err := patch.Stat(); err != nil || !info.Mode().IsRegular() {
		changed.Message, changed.Err = path+" is not a regular file", err
		return nil, changed
	}
	hash := sha256.New()
	size, err := io.Copy(hash, patch)
	if err == nil {
		_, err = patch.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	same := size == e.Manifest.Workspace.Changes.PatchBytes // a patch beyond the bounds of the list has no digest
	at := slices.IndexFunc(e.Manifest.Artifacts, func(a state.Artifact) bool { return a.Path == DiffFile })
	if at >= 0 {
		same = e.Manifest.Artifacts[at].SHA256 == hex.EncodeToString(hash.Sum(nil))
	}
	if !same {
		changed.Message = path + " is not what the run left: it does not fit the manifest"
		return nil, changed
	}
	return patch, nil
}

func resultsGone(e *files.Entry, hint string) error {
	return &runner.Error{Code: codeResultsGone, Param: "run",
		Message: "the results of " + e.ID + " are no longer in " + e.OutputDir(), Hint: hint}
}

// OpenTurn opens the files of the run's turn: among the results once it has ended, next to its container before. A turn
// that left none is CodeNoTurn, or codeResultsGone once it has ended.
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
	rec, err := sessions.ReadRun(e.Dir)
	if err != nil {
		return nil, err
	}
	return turnfiles.Open(rec.Dir, rec.TurnID)
}
