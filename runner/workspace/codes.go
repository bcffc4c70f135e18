package workspace

// Codes of git.Error that only this package gives. They are stable and part of the runner's records.
const (
	codeBusy     = "busy"     // every working tree of the repository is in use
	CodeReleased = "released" // the tree was released
)
