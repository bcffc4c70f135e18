package landing

import (
	"context"

	"holon/runner/workspace/git"
)

// Undo moves back what an Apply with Hold, or one that was cut off, did to the files. What was changed since stays as
// it is, with an error.
func Undo(ctx context.Context, runDir string) error {
	return withJournal(ctx, runDir, func(j *journal) error {
		if err := j.undo(); err != nil {
			return err
		}
		return j.end()
	})
}

// Settle gives up the former contents that an Apply with Hold kept: what it did stays.
func Settle(ctx context.Context, runDir string) error {
	return withJournal(ctx, runDir, func(j *journal) error {
		j.Landed = true
		return j.end()
	})
}

// withJournal calls do with the journal in a directory, if there is one.
func withJournal(ctx context.Context, runDir string, do func(*journal) error) error {
	if !git.Exists(runDir) {
		return nil
	}
	unlock, err := lockRun(ctx, runDir)
	if err != nil {
		return git.WithCode("finish an apply", err)
	}
	defer unlock()
	j, err := readJournal(runDir)
	if err == nil && j != nil {
		err = do(j)
	}
	return git.WithCode("finish an apply", err)
}
