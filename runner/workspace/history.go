package workspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// WarnHistory says that commits of the agent were left out, and why. They are lost with the tree. The diff still
// contains the changes of those that are checked out.
const WarnHistory = "history_left_out"

const (
	warnApart    = "history_apart"  // the agent's own commits are kept, but not below the result
	warnReplaced = "branch_renamed" // a branch has another name in the results
)

// Lost names what of the agent's work is in its tree alone: changes and commits that a diff leaves out.
func Lost(d *Diff) (what []string) {
	if d.Incomplete {
		what = append(what, "what could not be read is in the tree alone")
	}
	for _, w := range d.Warnings {
		switch w.Code {
		case WarnHistory:
			what = append(what, w.Message)
		case warnNestedRepository:
			what = append(what, fmt.Sprintf("the commits of the repository %.200q are in the tree alone", w.Path))
		}
	}
	return what
}

// Bounds on the objects of an agent's repository. An agent that commits only what it wrote stays far below them.
const (
	maxHistoryCommits = 1000
	maxHistoryObjects = 50_000
	maxHistoryPacks   = 50
	maxHistoryBytes   = 512 << 20 // of packs, and of loose objects unpacked
	historyTime       = 2 * time.Minute
	historyAlloc      = "256m" // memory that git may ask for at once
)

// saveHistory takes over what the agent committed itself: the commits on the branch that it left checked out, which
// Checkout can keep below the result, and those that are not part of the result. Git never works in the agent's
// repository, and of its files only references with their logs, loose objects and packs are read, as bytes:
//
//	agent's objects ─▶ staging: every object hashed anew ─▶ commits that the user's repository lacks
//	  ─▶ quarantine: index-pack --strict ─▶ objects of the run, and the bundle
//
// Its configuration, index, hooks, attributes, alternates, replacements, grafts, shallow file, commit graphs and other
// references are ignored. The diff is complete without all that, so a fault in it is only a warning.
func (t *Tree) saveHistory(parent context.Context, d *comparison, root folder.Dir, result git.Repository,
	options DiffOptions) error {
	if options.Objects == "" {
		return nil
	}
	h := &history{tree: t, diff: d, scratch: result, options: options}
	gitDir, err := root.Sub(".git")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an agent that removed it has no commits
	}
	if err != nil {
		h.leftOut(fmt.Errorf("its repository can't be read: %w", err))
		return nil
	}
	defer gitDir.Close()
	if t.info.Kind != KindGit {
		h.leftOut(errOwnRepository)
		return nil
	}
	h.gitDir = gitDir
	ctx, cancel := context.WithTimeout(parent, historyTime)
	defer cancel()
	if err := h.save(ctx); err != nil {
		if parent.Err() != nil || git.IsDiskFull(err) {
			return fmt.Errorf("keep the agent's commits: %w", err)
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("reading them took more than %s", historyTime)
		}
		h.leftOut(err)
	}
	return nil
}

// history is the commits of an agent on their way to the results.
type history struct {
	tree    *Tree
	diff    *comparison
	gitDir  folder.Dir     // the agent's
	scratch git.Repository // holds the others
	options DiffOptions

	staging, quarantine git.Repository
	kept                int64             // bytes of the packs in the quarantine
	known               []string          // commits that are not lost: of the user's repository, and of the result
	replaced            map[string]string // the agent's names of branches that have another, by that
}

// leftOut warns that commits were not taken over.
func (h *history) leftOut(err error) {
	h.diff.Warnings = append(h.diff.Warnings, Warning{Code: WarnHistory, Path: ".git",
		Message: fmt.Sprintf("the agent's own commits were left out: %.500v", err)})
}

func (h *history) save(ctx context.Context) error {
	base := h.tree.info.BaseCommit
	tip, headErr := git.AgentHead(h.gitDir)
	if tip == base || len(tip) != 2*h.tree.source.format.Size() {
		tip = ""
	}
	elsewhere, left, err := h.references(ctx, tip)
	if err = errors.Join(headErr, err); err != nil {
		h.leftOut(err)
	}
	if tip == "" && len(elsewhere)+len(left) == 0 {
		return nil
	}
	if err := h.stage(ctx); err != nil {
		return errors.Join(err, named(elsewhere))
	}
	if tip != "" && len(h.diff.Files) > 0 {
		found, err := h.head(ctx, tip)
		if h.diff.History = found; err != nil {
			if ctx.Err() != nil || git.IsDiskFull(err) {
				return err
			}
			defer func() { h.apart(ctx, tip, err) }()
		}
	}
	return h.branches(ctx, elsewhere, left)
}

// apart warns that the commits that are checked out are not below the result, and whether they are kept all the same.
func (h *history) apart(ctx context.Context, tip string, cause error) {
	out, err := h.staging.Git().With("GIT_ALLOC_LIMIT="+historyAlloc).Run(ctx,
		strings.NewReader(git.Beyond(tip, h.withKept())), "rev-list", "--count", "--max-count=1", "--stdin")
	if err != nil || strings.TrimSpace(string(out)) != "0" {
		h.leftOut(cause)
		return
	}
	h.diff.Warnings = append(h.diff.Warnings, Warning{Code: warnApart, Path: ".git",
		Message: fmt.Sprintf("the agent's own commits are not below the result: %.500v", cause)})
}

// stage copies the agent's objects.
func (h *history) stage(ctx context.Context) error {
	t := h.tree
	base := append([]string{t.base.Objects()}, t.base.Alternates...)
	h.staging = git.Repository{Dir: filepath.Join(h.scratch.Dir, "staging"), Format: t.source.format, Alternates: base}
	h.quarantine = git.Repository{Dir: filepath.Join(h.scratch.Dir, "quarantine"), Format: t.source.format,
		Alternates: base}
	for _, repo := range []git.Repository{h.staging, h.quarantine} {
		if err := t.source.user.CreateBeside(repo); err != nil {
			return err
		}
	}
	store, err := h.gitDir.Sub("objects")
	if err != nil {
		return fmt.Errorf("its objects can't be read: %w", err)
	}
	defer store.Close()
	in := &objectImport{format: t.source.format, into: h.staging}
	if err := in.loose(ctx, store); err != nil {
		return err
	}
	return in.packs(ctx, store)
}

// head takes over the commits of the branch that is checked out.
func (h *history) head(ctx context.Context, tip string) (*History, error) {
	found, err := h.tree.checkHistory(ctx, h.staging, tip)
	if err != nil {
		return nil, err
	}
	if err := h.transfer(ctx, tip, []string{h.tree.info.BaseCommit}); err != nil {
		return nil, err
	}
	h.known = append(h.known, tip)
	return found, nil
}

// transfer checks commits in the quarantine and adds them to the objects of the run.
func (h *history) transfer(ctx context.Context, tip string, bases []string) error {
	pack, err := git.Transfer(ctx, h.staging, h.quarantine, tip, bases, maxHistoryBytes-h.kept)
	if err != nil {
		return err
	}
	info, err := os.Stat(pack)
	if err != nil {
		return err
	}
	h.kept += info.Size()
	if err := os.MkdirAll(filepath.Join(h.options.Objects, "pack"), 0o700); err != nil {
		return err
	}
	return linkObjects(h.quarantine.Objects(), h.options.Objects)
}

// checkHistory checks the commits in a repository of ours: they must descend from the base, be few, and end
// in a tree that may be written to disk.
func (t *Tree) checkHistory(ctx context.Context, staging git.Repository, tip string) (*History, error) {
	g := staging.Git().With("GIT_ALLOC_LIMIT=" + historyAlloc)
	span := []string{tip}
	if t.info.BaseCommit != "" {
		span = append(span, "^"+t.info.BaseCommit)
		if _, err := g.Run(ctx, nil, "merge-base", "--is-ancestor", t.info.BaseCommit, tip); err != nil {
			if failed, ok := git.AsExitError(err); ok && failed.Exit == 1 {
				return nil, errors.New("they don't stand on the commit that the run started from")
			}
			return nil, err
		}
	}
	count, err := g.Line(ctx, append([]string{"rev-list", "--count",
		"--max-count=" + strconv.Itoa(maxHistoryCommits+1)}, span...)...)
	if err != nil {
		return nil, err
	}
	commits, err := strconv.Atoi(count)
	if err != nil || commits > maxHistoryCommits {
		return nil, fmt.Errorf("there are more than %d", maxHistoryCommits)
	}
	if err := checkTree(ctx, staging, tip); err != nil {
		return nil, err
	}
	return &History{Commit: tip, Commits: commits}, nil
}

// checkTree checks that the tree of a commit may be written to disk.
func checkTree(ctx context.Context, repo git.Repository, commit string) error {
	g := repo.Git().With("GIT_ALLOC_LIMIT=" + historyAlloc).WithOutput(maxHistoryTree)
	_, err := git.ReadTree(ctx, g, repo.Format, commit, "")
	return err
}

// maxHistoryTree bounds the listing of the tree that an agent's commits end in, in
// bytes: a tree of a few objects can hold itself a million times. It is a variable for the test.
var maxHistoryTree = 64 << 20

// objectImport copies objects of an agent's repository into one of ours.
type objectImport struct {
	format git.ObjectFormat
	into   git.Repository
	count  int
	bytes  int64
}

func (in *objectImport) admit(bytes int64) error {
	if in.count++; in.count > maxHistoryObjects {
		return fmt.Errorf("its repository has more than %d objects", maxHistoryObjects)
	}
	if in.bytes += bytes; in.bytes > maxHistoryBytes {
		return fmt.Errorf("its objects are larger than %d bytes", maxHistoryBytes)
	}
	return nil
}

// packs gives the agent's packs to git in our repository, which reads every object and computes its id; the agent's own
// indexes are not used.
func (in *objectImport) packs(ctx context.Context, store folder.Dir) error {
	dir, err := store.Sub("pack")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	packs := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".pack") {
			continue
		}
		if packs++; packs > maxHistoryPacks {
			return fmt.Errorf("its repository has more than %d packs", maxHistoryPacks)
		}
		if err := in.pack(ctx, dir, name); err != nil {
			return err
		}
	}
	return nil
}

func (in *objectImport) pack(ctx context.Context, dir folder.Dir, name string) error {
	file, st, err := dir.OpenFile(name)
	if err != nil {
		return fmt.Errorf("a pack can't be read: %w", err)
	}
	defer file.Close()
	var header [12]byte // "PACK", version, number of objects
	if _, err := io.ReadFull(file, header[:]); err != nil || string(header[:4]) != "PACK" {
		return errors.New("a pack file has no pack header")
	}
	if in.count += int(binary.BigEndian.Uint32(header[8:])); in.count > maxHistoryObjects {
		return fmt.Errorf("its repository has more than %d objects", maxHistoryObjects)
	}
	if err := in.admit(st.Size); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	g := in.into.Git().With("GIT_ALLOC_LIMIT=" + historyAlloc).WithConfig("core.fsync=none").WithCPUTime(git.PackTime)
	_, err = g.Run(ctx, io.LimitReader(file, st.Size), "index-pack", "--stdin",
		"--max-input-size="+strconv.FormatInt(maxHistoryBytes, 10))
	if err != nil {
		return git.RefusedObjects(err)
	}
	return nil
}
