package oneshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/visible"
	"holon/responses"
	"holon/runner"
	"holon/runner/turnfiles"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state/files"
)

// codeNotContinued is the code of an error about a run that no other can continue.
const codeNotContinued runner.Code = "cannot_continue"

// Continue makes a run, before Do, one that continues parent: its turn comes after that of parent in the same
// conversation, and its tree has the change of parent from the beginning.
func (o *Run) Continue(parent *files.Entry) error {
	refuse := func(message, hint string) error {
		return &runner.Error{Code: codeNotContinued, Param: "--continue", Message: parent.ID + " " + message,
			Hint: hint}
	}
	m := parent.Manifest
	switch {
	case parent.Live:
		return refuse("is still going on", "wait for its end, or stop it: holon stop "+parent.ID)
	case m == nil:
		return refuse("has no end yet: its holon was killed", "bring it to its end: holon attach "+parent.ID)
	case m.Turn == nil:
		return refuse("has no conversation: its turn did not begin", "start a new one with holon run")
	case m.Workspace == nil || m.Workspace.Changes == nil:
		return refuse("has no result: its change was not collected", "start a new one with holon run")
	}
	stored := filepath.Join(parent.Dir, conversationDir)
	err := responses.CheckID("response_id", m.Turn.ResponseID) // the agent's words
	if err == nil {
		_, err = os.Stat(filepath.Join(stored, m.Turn.ResponseID+".ndjson"))
	}
	if err != nil {
		return refuse("has no conversation on record: it was cut off, or made by an older holon",
			"start a new one with holon run; holon apply "+parent.ID+" keeps its change")
	}
	o.parent, o.Session.Responses = parent.ID, stored
	o.Session.SessionID, o.Turn.Request.PreviousResponseID = m.Turn.SessionID, m.Turn.ResponseID
	if len(m.Workspace.Changes.Files) > 0 {
		patch, err := PatchOf(parent)
		if err != nil {
			return err
		}
		o.Workspace.Continue = &workspace.Continuation{Run: parent.ID, Patch: patch,
			Objects: filepath.Join(parent.Dir, ObjectsDir), Submodules: m.Workspace.Changes.Submodules}
	}
	return nil
}

// namePatch adds the path of the patch to the error of a change that does not merge with the files as they are now.
func (o *Run) namePatch(err error) error {
	e, ok := errors.AsType[*git.Error](err)
	if ok && e.Code == workspace.CodeContinueConflict && o.Workspace.Continue != nil {
		e.Hint += ", or apply the patch by hand: " + o.Workspace.Continue.Patch
	}
	return err
}

// keepConversation keeps what agentd stored of the conversation, for a run that continues this one. A run that cannot
// be continued does not fail.
func (r *execution) keepConversation(ctx context.Context) {
	to := filepath.Join(r.run.Dir(), conversationDir)
	warnings, err := turnfiles.CollectResponses(ctx, r.sessions.SessionDir(r.key), to)
	if parent := r.manifest.ParentRunID; err == nil && parent != "" {
		err = keepGiven(filepath.Join(r.sessions.Home.RunDir(parent), conversationDir), to)
	}
	if err != nil {
		warnings = append(warnings, "holon run --continue cannot continue it: "+visible.OneLine(err.Error(), 300))
	}
	r.manifest.Warnings = append(r.manifest.Warnings, warnings...)
}

// keepGiven keeps the responses that a run was given as they were then: its commands may have changed its own.
func keepGiven(given, to string) error {
	entries, err := os.ReadDir(given)
	if errors.Is(err, fs.ErrNotExist) { // the run that it continues was removed meanwhile
		return nil
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(to, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the conversation that is continued: %w", err)
		}
	}
	if err == nil {
		err = os.CopyFS(to, os.DirFS(given))
	}
	if err != nil {
		return fmt.Errorf("keep the conversation that is continued: %w", err)
	}
	return nil
}
