package landing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// Names of files that Checkout and Apply add to a run's directory.
const (
	checkoutFile = "checkout.json" // the Registration
	checkoutLock = "checkout.lock" // held while it, the journal, or what they are about changes
	ApplyFile    = "apply.json"    // the journal of an Apply that goes on, or was killed
)

// registrationSchema is the value of "schema" in every registration.
const registrationSchema = "holon.checkout/1"

// Registration is checkout.json in a run's directory: which branch and working tree Checkout made. It is written before
// they are, and removed with the working tree; the branch stays.
type Registration struct {
	Schema     string    `json:"schema"`
	Run        string    `json:"run_id"`
	Repository string    `json:"repository"` // the git directory that is shared by all working trees, absolute
	Branch     string    `json:"branch"`     // without refs/heads/
	From       string    `json:"from"`       // name of the agent's branch that it is; empty for the result
	Base       string    `json:"base"`       // commit that the run started from; empty on an unborn branch
	Commit     string    `json:"commit"`     // that the branch was made at
	Commits    int       `json:"commits"`    // above base
	Path       string    `json:"path"`       // of the working tree, absolute
	CreatedAt  time.Time `json:"created_at"`
}

// readRegistration returns what was checked out of the run in runDir; nil when nothing was.
func readRegistration(runDir string) (*Registration, error) {
	path := registrationPath(runDir)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &Registration{}
	err := json.Unmarshal([]byte(git.ReadSmall(path)), r)
	if err == nil && (r.Schema != registrationSchema || !filepath.IsAbs(r.Path) || !filepath.IsAbs(r.Repository) ||
		!git.ObjectID().MatchString(r.Commit) || git.CheckBranch(r.Branch) != nil) {
		err = errors.New("a required field is missing or invalid")
	}
	if err != nil {
		return nil, &git.Error{Code: git.CodeFailed, Param: "RUN", Err: err,
			Message: "the registration " + path + " can't be read",
			Hint:    "look at `git worktree list`, then remove the file"}
	}
	return r, nil
}

// FindCheckout returns the directory, of those that patterns name, in which a checkout is registered; "" for none.
func FindCheckout(run string, patterns ...string) string {
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(registrationPath(pattern)) // the patterns are right
		for _, path := range paths {
			if r, err := readRegistration(filepath.Dir(path)); err == nil && r != nil && r.Run == run {
				return filepath.Dir(path)
			}
		}
	}
	return ""
}

func registrationPath(runDir string) string { return filepath.Join(runDir, checkoutFile) }

func (r Registration) write(runDir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", checkoutFile, err)
	}
	return durable.WriteFile(registrationPath(runDir), append(text, '\n'), 0o600)
}

// reason is the text of the lock; it distinguishes our locks from others.
func (r Registration) reason() string { return "holon: result of " + r.Run }

// gitDirOf returns the git directory of a linked working tree as its repository names it, empty if it has
// none there. It does not read the working tree's own .git, which any program may have written.
func (r Registration) gitDirOf() string {
	all := filepath.Join(r.Repository, "worktrees")
	dir, err := folder.Open(all)
	if err != nil {
		return ""
	}
	defer dir.Close()
	names, _ := dir.Names()
	for _, name := range names {
		if named, _ := git.ReadIn(all, name+"/gitdir"); strings.TrimRight(named, "\n") == filepath.Join(r.Path,
			".git") {
			return filepath.Join(all, name)
		}
	}
	return ""
}

// filled reports whether the working tree got its files: git writes the index after the last of them.
func (r Registration) filled() bool { return git.Exists(filepath.Join(r.gitDirOf(), "index")) }
