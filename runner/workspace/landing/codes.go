package landing

// Codes of git.Error that only this package gives. They are stable and part of the runner's records.
const (
	CodeInvalidPatch     = "invalid_patch"     // the patch can't be read or names unsafe paths
	CodePatchConflict    = "patch_conflict"    // the patch does not merge with the user's files
	CodeDiffOutdated     = "diff_outdated"     // the change is not the one that was read
	CodeWouldOverwrite   = "would_overwrite"   // the patch creates a file that exists untracked
	CodeExecutedFiles    = "executed_files"    // the change has files that programs execute, and no one agreed to them
	codeChangedMeanwhile = "changed_meanwhile" // the user's files changed while the patch was applied
	CodeNotARepository   = "not_a_repository"  // a plain directory where a branch is asked for
	CodeNothingChanged   = "nothing_changed"   // a run without a result to check out
	CodeBranchExists     = "branch_exists"     // the branch to make exists
	CodeNoSuchBranch     = "no_such_branch"    // the run has no branch of that name
	CodePathExists       = "path_exists"       // something is where the working tree should go
	CodeCheckedOut       = "checked_out"       // the run's result is checked out elsewhere
	CodeWorktreeInUse    = "worktree_in_use"   // a working tree that must not be removed; the message says why
)
