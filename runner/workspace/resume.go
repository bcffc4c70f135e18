package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// Held identifies a tree so that another process can resume it: Tree.Held returns it, the caller stores it
// and gives it to Resume. Paths are the host's.
type Held struct {
	Slot      string        `json:"slot"`      // the slot's directory
	Info      Info          `json:"info"`      // Tree.Info
	Claim     string        `json:"claim"`     // Options.Claim
	Owner     *folder.Owner `json:"owner"`     // Options.Owner
	Borrowing git.Borrowing `json:"borrowing"` // Options.Borrowing

	Pinned           string `json:"pinned,omitempty"`            // objects of a base that was pinned
	TreeDir          string `json:"tree_dir,omitempty"`          // Options.TreeDir
	ObjectsDir       string `json:"objects_dir,omitempty"`       // Options.ObjectsDir
	ContainerObjects string `json:"container_objects,omitempty"` // Options.ContainerObjects
	IncludeDirty     bool   `json:"include_dirty,omitempty"`     // Options.IncludeDirty
}

// Held describes the tree for Resume.
func (t *Tree) Held() Held {
	o := t.source.options
	h := Held{Slot: t.slot.dir, Info: t.info, Claim: o.Claim, Owner: o.Owner, Borrowing: o.Borrowing,
		TreeDir: o.TreeDir, ObjectsDir: o.ObjectsDir, ContainerObjects: o.ContainerObjects, IncludeDirty: o.IncludeDirty}
	if t.source.pin != nil {
		h.Pinned = t.source.pin.objects
	}
	return h
}

// Resume returns a tree whose process ended without releasing it, with everything written there since. Of
// options it uses only CacheDir, Keep and Limits. A locked tree is CodeBusy; one that is no longer claimed is
// CodeReleased: its content was saved or discarded.
func Resume(ctx context.Context, options Options, held Held) (*Tree, error) {
	tree, err := resume(ctx, options, held)
	return tree, git.WithCode("take up working tree", err)
}

func resume(ctx context.Context, options Options, held Held) (_ *Tree, err error) {
	s, err := lockHeld(options.CacheDir, held)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlock())
		}
	}()
	last, err := s.readMoved(held)
	if err != nil {
		return nil, err
	}
	held.Info = last.Info
	options.Limits, options.Keep = options.Limits.withDefaults(), cmp.Or(options.Keep, 4)
	options.Claim, options.Owner, options.Borrowing = held.Claim, held.Owner, held.Borrowing
	options.TreeDir, options.ObjectsDir, options.ContainerObjects = held.TreeDir, held.ObjectsDir, held.ContainerObjects
	options.IncludeDirty, s.placed = held.IncludeDirty, held.TreeDir
	source := &Source{options: options, info: held.Info, format: git.ObjectFormat(held.Info.ObjectFormat),
		cache: repositoryCache{dir: filepath.Dir(held.Slot)}}
	tree := &Tree{source: source, info: held.Info, slot: s, theirs: last.Theirs, change: last.Change,
		note: last.Note}
	tree.start = held.Info.BaseTree // also of a tree that began with more: the record need not agree with the files
	tree.bases = baseTrees(held.Info.Submodules)
	tree.info.Submodules = nil // found again with the entries
	if held.Info.Kind == KindGit {
		if err = source.findObjects(ctx); err != nil {
			return nil, err
		}
	}
	if held.Pinned != "" {
		source.pin = &pinned{tree: held.Info.BaseTree, objects: held.Pinned, bases: tree.bases}
	}
	tree.base = git.Repository{Dir: s.git(), Format: source.format, Alternates: source.alternates()}
	if held.Info.Kind == KindGit {
		tree.objects = tree.objectDirs()
	}
	tree.record = readRecord(s.record(), source.format)
	if err = tree.loadEntries(ctx, held.Info.BaseTree); err != nil || tree.change == nil {
		return tree, err
	}
	return tree, tree.resumeChange(ctx)
}

// resumeChange finishes a change of the files that was cut off. A tree that is not there can still be released.
func (t *Tree) resumeChange(ctx context.Context) error {
	err := t.withRoot(ctx, func(context.Context, folder.Dir) error { return nil })
	if e, ok := errors.AsType[*git.Error](err); ok && e.Code == CodeTreeGone {
		return nil
	}
	return err
}

// lockHeld locks the slot of held, if it is in the cache and still has the same claim.
func lockHeld(cacheDir string, held Held) (*slot, error) {
	number, err := strconv.Atoi(filepath.Base(held.Slot))
	trees := filepath.Join(cacheDir, "trees")
	if err != nil || number < 0 || number >= maxSlots || filepath.Dir(filepath.Dir(held.Slot)) != trees ||
		filepath.Clean(held.Slot) != held.Slot {
		return nil, git.InvalidOption("Slot", "%.200q is not a working tree of the cache %.200q", held.Slot, cacheDir)
	}
	released := &git.Error{Code: CodeReleased, Message: "the working tree " + held.Slot + " is not held any more"}
	if _, err := os.Lstat(held.Slot); errors.Is(err, fs.ErrNotExist) {
		return nil, released
	}
	s, err := repositoryCache{dir: filepath.Dir(held.Slot)}.tryLock(number)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, &git.Error{Code: codeBusy, Message: "the working tree " + held.Slot + " is in use",
			Hint: "wait until its run ends"}
	}
	claim, err := s.claimedBy()
	if err == nil && (claim == "" || claim != held.Claim) {
		err = released
	}
	if err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	return s, nil
}

// findObjects finds the repository that the tree borrows from again. Only its objects are needed: its HEAD may have
// moved. With ObjectsDir, which has them too, the repository may be gone, and another in its place is not used.
func (s *Source) findObjects(ctx context.Context) error {
	if s.options.ObjectsDir != "" && s.checkOrigin(ctx) != nil {
		return nil
	}
	user, err := git.Locate(ctx, s.info.Path, s.options.Borrowing)
	if err != nil {
		return err
	}
	if user == nil || user.Format != s.format {
		return &git.Error{Code: git.CodeBrokenRepository, Param: s.info.Path,
			Message: "the repository that the tree was made from is not there any more",
			Hint:    "put it back at " + s.info.Path}
	}
	s.user = *user
	return nil
}

// CheckOrigin fails unless the directory that the tree was made from is where it was.
func (t *Tree) CheckOrigin(ctx context.Context) error {
	return git.WithCode("find the user's files", t.source.checkOrigin(ctx))
}

func (s *Source) checkOrigin(ctx context.Context) error {
	options := s.options
	options.Dir = filepath.Join(s.info.Path, s.info.Prefix)
	dir, user, err := locate(ctx, options)
	if err != nil {
		return err
	}
	place := dir
	if user != nil {
		place = user.GitDir
	}
	of, err := originOf(topOf(dir, user), place)
	if err == nil && (of.cacheIn(s.options.CacheDir) != s.cache.dir || (user != nil) != (s.info.Kind == KindGit) ||
		user != nil && user.Format != s.format) {
		err = s.replaced()
	}
	return err
}

// replaced is the error where another directory or repository is at the path.
func (s *Source) replaced() error {
	return &git.Error{Code: git.CodeBrokenRepository, Param: s.info.Path,
		Message: "another repository is at " + s.info.Path + " than the tree was made from",
		Hint:    "put the other back, or use a fresh copy of this one (--isolated)"}
}

// Claim is a claimed tree, with the Options.Claim of the process that acquired it.
type Claim struct {
	Slot string `json:"slot"` // the slot's directory
	By   string `json:"by"`
}

// Claims lists the claimed trees of the cache, locked or not.
func Claims(ctx context.Context, cacheDir string) ([]Claim, error) {
	files, err := filepath.Glob(filepath.Join(cacheDir, "trees", "*", "*", "claim"))
	if err != nil {
		return nil, git.WithCode("list working trees", err)
	}
	var claims []Claim
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, git.WithCode("list working trees", err)
		}
		s := &slot{dir: filepath.Dir(file)}
		by, err := s.claimedBy()
		if err != nil {
			return nil, git.WithCode("list working trees", err)
		}
		if by != "" {
			claims = append(claims, Claim{Slot: s.dir, By: by})
		}
	}
	return claims, nil
}

// Disclaim removes the claim on a tree whose content is not needed: the next run that acquires the slot
// resets it to its own base. A tree that is in use or has another claim by now is left alone.
func Disclaim(_ context.Context, cacheDir string, claim Claim) error {
	s, err := lockHeld(cacheDir, Held{Slot: claim.Slot, Claim: claim.By})
	if e, ok := errors.AsType[*git.Error](err); ok && (e.Code == CodeReleased || e.Code == codeBusy) {
		return nil
	}
	if err == nil {
		err = s.takeBack(false)
		if err == nil {
			err = s.disclaim()
		}
		err = errors.Join(err, s.unlock())
	}
	if err != nil {
		err = fmt.Errorf("give up %s: %w", claim.Slot, err)
	}
	return git.WithCode("give up working tree", err)
}
