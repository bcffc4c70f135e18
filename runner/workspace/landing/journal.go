package landing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/internal/visible"
	"holon/runner/workspace/git"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Beginnings of the names of temporary directories: in the run's directory, and in the user's tree.
const (
	scratchPrefix  = ".apply-"
	checkoutPrefix = ".checkout-"
	stagePrefix    = ".holon-apply-"
)

// journal is apply.json in a run's directory: what an Apply is doing to a tree. It is written before each phase, and
// only the host writes it: a directory of the tree that looks like a stage means nothing by itself, since a result or a
// repository can have one. Names are raw bytes.
type journal struct {
	Top   string `json:"top"`   // of the tree
	Stage string `json:"stage"` // directory in it with the former and the new files

	// What is moved, in this order; all empty until the new files are staged, and again when all is in place.
	Aside   [][]byte      `json:"aside,omitempty"`   // files whose former content is in old of the stage, by their index
	Removed []directory   `json:"removed,omitempty"` // directories that may go with them, parents first
	Made    [][]byte      `json:"made,omitempty"`    // directories that are new, parents first
	Written []writtenFile `json:"written,omitempty"` // files that come from new of the stage
	Landed  bool          `json:"landed,omitempty"`  // all is in place: only the stage is to be removed

	runDir string
}

type directory struct {
	Path []byte `json:"path"`
	Mode uint32 `json:"mode"`
}

// writtenFile identifies a new file, also when it is in its place: its change time is left out.
type writtenFile struct {
	Path []byte      `json:"path"`
	Stat folder.Stat `json:"stat"`
}

// beginJournal records the name of a stage and makes it, within the tree because a rename must not cross file systems.
func beginJournal(runDir, top string) (j *journal, stage string, err error) {
	stage, err = os.MkdirTemp(runDir, scratchPrefix) // a name that no other process has
	if err != nil {
		return nil, "", err
	}
	defer os.Remove(stage)
	name := stagePrefix + strings.TrimPrefix(filepath.Base(stage), scratchPrefix)
	j = &journal{Top: top, Stage: name, runDir: runDir}
	if err := j.write(); err != nil {
		return nil, "", err
	}
	if err := os.Mkdir(j.stage(), 0o700); err != nil {
		return nil, "", errors.Join(err, os.Remove(j.path()))
	}
	return j, j.stage(), nil
}

func (j *journal) path() string  { return filepath.Join(j.runDir, ApplyFile) }
func (j *journal) stage() string { return filepath.Join(j.Top, j.Stage) }

func (j *journal) write() error {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("encode %s: %w", ApplyFile, err)
	}
	return durable.WriteFile(j.path(), text, 0o600)
}

// plan records what the steps are about to do.
func (j *journal) plan(m *merge, r *replacement, result *ApplyResult) error {
	for _, name := range m.replaced(result) {
		j.Aside = append(j.Aside, []byte(name))
	}
	for _, name := range result.Written {
		dir, base, err := r.staged.Parent(name)
		if err != nil {
			return err
		}
		st, err := dir.Lstat(base)
		if err != nil {
			return err
		}
		j.Written = append(j.Written, writtenFile{[]byte(name), placedStat(&st)})
	}
	for _, dir := range parents(result.Deleted) {
		at, base, err := r.tree.Parent(dir)
		if err != nil {
			return err
		}
		st, err := at.Lstat(base)
		if err != nil {
			return err
		}
		j.Removed = append(j.Removed, directory{[]byte(dir), uint32(st.Mode) & 0o7777})
	}
	for _, dir := range parents(result.Written) {
		if at, base, err := r.tree.Parent(dir); err == nil {
			if st, err := at.Lstat(base); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				continue
			}
		}
		j.Made = append(j.Made, []byte(dir))
	}
	return j.write()
}

// placedStat is what does not change when a file is moved.
func placedStat(st *unix.Stat_t) folder.Stat {
	s := folder.StatOf(st)
	s.CtimeSec, s.CtimeNsec = 0, 0
	return s
}

// parents lists the directories above paths, but for the top, parents first.
func parents(paths []string) (dirs []string) {
	for _, path := range paths {
		for dir, _ := folder.Split(path); dir != ""; dir, _ = folder.Split(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// end removes the stage of an Apply that has nothing to be moved back any more, and only then the journal: while
// that stays, the next Apply or UndoKilled tries again.
func (j *journal) end() error {
	j.Aside, j.Removed, j.Made, j.Written = nil, nil, nil, nil
	if err := j.write(); err != nil {
		return err
	}
	if err := os.RemoveAll(j.stage()); err != nil {
		return fmt.Errorf("remove the files of an apply: %w", err)
	}
	return os.Remove(j.path())
}

// killed is an Apply or a Checkout that was killed.
type killed struct {
	Dir  string // of its run
	What string // directory in the user's tree, or the run's
	Err  error  // why it could not be undone

	landed bool // only its journal was left
}

// Files says what became of the user's files.
func (k killed) Files() string {
	if k.landed {
		return "the files have its change: it was done"
	}
	return "the files are as before it"
}

// UndoKilled finds each Apply that was killed, by patterns of the directories of runs, and undoes it: the files are
// as they were before it. A file that was changed since stays as it is, and so does the stage with its former content,
// with an error. It also removes the temporary files that a killed Apply, Checkout or Remove left in the run's
// directory. A dry run only finds all that.
func UndoKilled(ctx context.Context, runs []string, dryRun bool) ([]killed, error) {
	var runDirs []string
	for _, left := range []string{ApplyFile, scratchPrefix + "*", checkoutPrefix + "*"} {
		for _, pattern := range runs {
			paths, err := filepath.Glob(filepath.Join(pattern, left))
			if err != nil {
				return nil, err
			}
			for _, path := range paths {
				runDirs = append(runDirs, filepath.Dir(path))
			}
		}
	}
	slices.Sort(runDirs)
	var found []killed
	for _, runDir := range slices.Compact(runDirs) {
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		what, landed, err := undoKilled(runDir, dryRun)
		if what != "" || err != nil {
			found = append(found, killed{Dir: runDir, What: what, landed: landed,
				Err: git.WithCode("undo an apply that was killed", err)})
		}
	}
	return found, nil
}

// undoKilled undoes what was killed of one run, and says what that was: nothing if it goes on.
func undoKilled(runDir string, dryRun bool) (what string, landed bool, err error) {
	lock := flock.New(filepath.Join(runDir, checkoutLock), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); !ok || err != nil {
		return "", false, err
	}
	defer func() { _ = lock.Unlock() }() // the process's end does the same
	return undoIn(runDir, dryRun)
}

// undoIn is undoKilled for the holder of the lock.
func undoIn(runDir string, dryRun bool) (what string, landed bool, err error) {
	for _, prefix := range []string{scratchPrefix, checkoutPrefix} {
		scratches, err := filepath.Glob(filepath.Join(runDir, prefix+"*"))
		if err != nil {
			return "", false, err
		}
		for _, what = range scratches {
			if dryRun {
				continue
			}
			if err := os.RemoveAll(what); err != nil {
				return what, false, err
			}
		}
	}
	j, err := readJournal(runDir)
	if j == nil || err != nil {
		return what, false, err
	}
	if dryRun {
		return j.stage(), j.Landed, nil
	}
	if err := j.undo(); err != nil {
		return j.stage(), false, err
	}
	return j.stage(), j.Landed, j.end()
}

// readJournal returns the journal of a run; nil when it has none.
func readJournal(runDir string) (*journal, error) {
	j := &journal{runDir: runDir}
	text, err := os.ReadFile(j.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, j)
	}
	if err == nil && (!filepath.IsAbs(j.Top) || !strings.HasPrefix(j.Stage, stagePrefix) ||
		strings.Contains(j.Stage, "/")) {
		err = errors.New("a required field is missing or invalid")
	}
	if err != nil {
		return nil, &git.Error{Code: git.CodeFailed, Param: "RUN", Err: err,
			Message: "the journal " + j.path() + " can't be read",
			Hint:    "look for " + stagePrefix + "* at the top of your files, then remove the journal"}
	}
	return j, nil
}

// undo moves back what the plan moved, as far as it came.
func (j *journal) undo() error {
	if len(j.Aside)+len(j.Written) == 0 || !git.Exists(j.stage()) {
		return nil
	}
	root, err := folder.Open(j.Top)
	if err != nil {
		return err
	}
	defer root.Close()
	r, err := newReplacement(root, j.stage())
	if err != nil {
		return err
	}
	defer r.close()
	for _, w := range slices.Backward(j.Written) {
		if err := r.takeOutAgain(string(w.Path), w.Stat); err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(j.Made) {
		r.tree.Close()
		_ = r.removeMade(string(dir)) // it was not made yet, or something else is in it
	}
	for _, dir := range j.Removed {
		r.tree.Close()
		_ = r.makeAgain(string(dir.Path), dir.Mode) // it was not removed, or its files cannot be moved back, which says why
	}
	var kept []string
	for i, name := range j.Aside {
		r.tree.Close()
		base := strconv.Itoa(i)
		if _, err := r.old.Lstat(base); errors.Is(err, unix.ENOENT) {
			continue // it was not moved yet
		}
		if err := r.moveBack(base, string(name)); err != nil {
			kept = append(kept, fmt.Sprintf("%s (%s)", visible.Quoted(string(name)), filepath.Join(j.stage(), "old", base)))
		}
	}
	if len(kept) > 0 {
		return &git.Error{Code: codeChangedMeanwhile, Param: "RUN",
			Message: "an apply was cut off, and files were changed since, whose former content is kept: " +
				visible.OneLine(strings.Join(kept, ", "), 1000),
			Hint: "take what you need of it, then remove " + j.stage()}
	}
	return nil
}

// takeOutAgain removes a new file from its place, if it is there and unchanged.
func (r *replacement) takeOutAgain(name string, stat folder.Stat) error {
	r.tree.Close()
	dir, base, err := r.tree.Parent(name)
	if err != nil {
		return nil // it did not get there
	}
	st, err := dir.Lstat(base)
	if err != nil || placedStat(&st) != stat {
		return nil
	}
	return r.takeOut(name)
}
