// Package workspace gives a run a private working tree of the user's directory and says what the run changed there.
//
// Open inspects the directory (a git repository or a plain directory), Acquire takes a recycled tree and brings it to
// the base, Diff compares the tree with the base, Release takes the tree back. Package landing brings the change into
// the user's repository.
//
// A tree that an agent keeps stands where its container sees it (Options.TreeDir), next to a directory with the objects
// of its repository (Options.ObjectsDir). Its base moves: Advance makes the present state the base, once the change was
// applied; Sync merges what the user did since into the files and the base; Merge takes the change of another tree into
// the files; Fork makes a tree whose base is the present state. No process of the container may run meanwhile.
//
// Invariants. The user's repository is only read. The tree is written by a container and therefore hostile: the host
// compares and reads it name by name from open directories, never through a symbolic link, within bounds, and never
// runs git with a working tree or a git directory that a container could write. The host keeps what it knows of a tree
// (base, stat data, objects) outside the tree, where the container has no access. A file whose inode, size, mode and
// times equal the record is unchanged, because only the kernel sets change times. Content is raw: no line
// ending, filter or LFS conversion in either direction. What Sync and Merge write is staged outside the tree and
// recorded before the first file moves: they change all or nothing, and the next use of the tree, by any process,
// finishes what was cut off. Files that a diff leaves out, such as ignored ones, are never replaced. An error of an
// exported function is a *git.Error.
//
// Not promised: a consistent diff while a process still writes the tree (stop the container first), and changes within
// submodules where the base moves (without DiffOptions.Submodules they become warnings). A Tree is not for concurrent
// use; several processes may use Sources and Trees at the same time, also of one repository.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"holon/internal/folder"
	"holon/runner/workspace/git"
	"holon/state"

	"golang.org/x/sync/errgroup"
)

// Codes of git.Error that only this package gives. They are stable and part of the runner's records.
const (
	codeBusy     = "busy"     // every working tree of the repository is in use
	CodeReleased = "released" // the tree was released
)

// Options name the directory that a Source is made of and where its trees are kept.
type Options struct {
	Dir          string // the user's directory: a git working tree, a directory within one, or a plain directory
	IncludeDirty bool   // start from the files as they are now, not from HEAD; always so for a plain directory
	Borrowing    git.Borrowing
	CacheDir     string // absolute; the host's, never visible in a container except the trees themselves
	Claim        string // claims the tree beyond the life of the process, e.g. the run's id; "": no claim

	// TreeDir is the absolute path at which the tree stands, on the file system of CacheDir; "": within its slot. Its
	// parent exists, and a container may write there.
	TreeDir string

	// ObjectsDir is the object directory that gets all objects that the tree's repository needs: linked, or copied
	// where that cannot be. The caller mounts it read-only and removes it when no tree uses it. "": the agent's
	// repository borrows from the directories that have them.
	ObjectsDir string

	// ContainerObjects is where the runner mounts the object directories, e.g. "/holon/objects", or ObjectsDir; empty
	// when the agent sees the host's paths.
	ContainerObjects string
	Keep             int // trees kept per repository between runs; 0 means 4
	Limits           Limits

	// Continue is the change of an earlier run that the trees begin with; nil for none. It counts as a change of the
	// new run.
	Continue *Continuation

	// Ignored are patterns (pattern.Glob) of files that git ignores in the user's tree and that the trees get all the
	// same, as copies: what becomes of these is not part of a diff. nil: ignored files are not looked for.
	Ignored []string

	// IgnoredNamed says that a person named the patterns for these trees: one that fits nothing is warned of.
	IgnoredNamed bool

	// Owner owns every file and directory in the tree. nil leaves them to this process's user; only root can
	// give files to another.
	Owner *folder.Owner
}

// For sets the owner of the trees to be acquired (Options.Owner).
func (s *Source) For(owner *folder.Owner) { s.options.Owner = owner }

// Limits bound a snapshot and a diff. A zero field means its default.
type Limits struct {
	SnapshotBytes int64 // uncommitted files, or a whole plain directory; 4 GiB
	FileBytes     int64 // one changed file in a diff; 128 MiB
	DiffBytes     int64 // all changed files in a diff; 1 GiB
	IgnoredBytes  int64 // ignored files that are copied; 4 GiB
	Files         int   // new paths looked at in a diff, or files of a plain directory; 500,000
	NameBytes     int   // names of the new files in a diff, as JSON; 12 MiB
}

func (l Limits) withDefaults() Limits {
	l.SnapshotBytes = cmp.Or(l.SnapshotBytes, 4<<30)
	l.IgnoredBytes = cmp.Or(l.IgnoredBytes, 4<<30)
	l.FileBytes = cmp.Or(l.FileBytes, 128<<20)
	l.DiffBytes = cmp.Or(l.DiffBytes, 1<<30)
	l.Files = cmp.Or(l.Files, 500_000)
	l.NameBytes = cmp.Or(l.NameBytes, 12<<20)
	return l
}

// Kinds of Info.
const (
	KindGit  = "git"  // a git repository; objects are borrowed
	KindCopy = "copy" // a plain directory; files are copied
)

// Info describes a Source, as the record of a run has it.
type Info = state.Source

// submodule is a commit entry of the base.
type submodule = state.Submodule

// A Source is a directory that trees can be made from. It holds nothing open.
type Source struct {
	options  Options
	info     Info
	format   git.ObjectFormat
	headTree string // hex, of the base commit; the empty tree when there is none
	user     git.UserRepository
	cache    repositoryCache
	pin      *pinned // nil: each tree has the files as they are when it is acquired
}

// Check refuses what Open refuses for where the directory lies. It writes nothing.
func Check(ctx context.Context, options Options) error {
	_, _, err := locate(ctx, options)
	return git.WithCode("open workspace", err)
}

// Open inspects options.Dir. It writes nothing but the cache directory.
func Open(ctx context.Context, options Options) (*Source, error) {
	source, err := open(ctx, options)
	return source, git.WithCode("open workspace", err)
}

func open(ctx context.Context, options Options) (*Source, error) {
	options.Limits = options.Limits.withDefaults()
	options.Keep = cmp.Or(options.Keep, 4)
	if err := options.checkPaths(); err != nil {
		return nil, err
	}
	dir, user, err := locate(ctx, options)
	if err != nil {
		return nil, err
	}
	return newSource(ctx, options, dir, user)
}

func (o *Options) checkPaths() error {
	for _, path := range []struct{ param, value string }{{"ContainerObjects", o.ContainerObjects},
		{"TreeDir", o.TreeDir}, {"ObjectsDir", o.ObjectsDir}} {
		if v := path.value; v != "" && (!filepath.IsAbs(v) || filepath.Clean(v) != v) {
			return git.InvalidOption(path.param, "the path %.200q is not absolute and clean", v)
		}
	}
	return nil
}

// locate returns the directory, links resolved, and its repository, nil for a plain directory.
func locate(ctx context.Context, options Options) (dir string, user *git.UserRepository, err error) {
	if !filepath.IsAbs(options.CacheDir) {
		return "", nil, git.InvalidOption("CacheDir", "the cache directory %q is not an absolute path", options.CacheDir)
	}
	if dir, err = git.RealDirectory(options.Dir); err != nil {
		return "", nil, err
	}
	if user, err = git.Locate(ctx, dir, options.Borrowing); err != nil {
		return "", nil, err
	}
	if top := topOf(dir, user); git.Within(top, options.CacheDir) {
		return "", nil, &git.Error{Code: git.CodeInvalidOption, Param: "CacheDir",
			Message: "the state directory " + options.CacheDir + " lies within the workspace " + top,
			Hint:    "name a smaller workspace, or move the state directory (HOLON_HOME)"}
	}
	return dir, user, nil
}

func topOf(dir string, user *git.UserRepository) string {
	if user != nil {
		return user.Top
	}
	return dir
}

// newSource inspects a repository, or a plain directory where user is nil.
func newSource(ctx context.Context, options Options, dir string, user *git.UserRepository) (*Source, error) {
	top, place := topOf(dir, user), dir
	if user != nil {
		place = user.GitDir
	}
	of, err := originOf(top, place)
	if err != nil {
		return nil, err
	}
	cache, err := openCache(options.CacheDir, of)
	if err != nil {
		return nil, err
	}
	source := &Source{options: options, cache: cache, format: git.SHA1}
	source.info = Info{Kind: KindCopy, Path: top, ObjectFormat: string(git.SHA1), IncludedDirty: true}
	source.headTree = source.format.EmptyTree()
	if user == nil {
		return source, nil
	}
	source.user = *user
	source.user.SeeIgnored = options.Ignored != nil
	return source, source.inspect(ctx)
}

// Info returns what Open found.
func (s *Source) Info() Info { return s.info }

// inspect reads the rest of the user's repository, in parallel because some of it needs git processes.
func (s *Source) inspect(ctx context.Context) (err error) {
	s.format = s.user.Format
	s.headTree = s.format.EmptyTree()
	s.info.Kind, s.info.Prefix = KindGit, s.user.Prefix
	s.info.ObjectFormat, s.info.Shallow = string(s.format), s.user.Shallow != ""
	scratch, err := os.MkdirTemp(s.cache.dir, viewPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	v, err := s.user.View(filepath.Join(scratch, "view"))
	if err != nil {
		return err
	}
	group, groupContext := errgroup.WithContext(ctx)
	group.Go(func() error { return s.user.LoadStatus(groupContext, v) })
	group.Go(func() error { return s.user.LoadReferences(groupContext) })
	group.Go(func() error { return s.user.LoadHeadTree(groupContext, v) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.judge()
}

// judge decides whether uncommitted files are included, and whether they can be.
func (s *Source) judge() error {
	status := s.user.Status
	s.info.Branch = s.user.Branch
	if s.user.HeadCommit != "" {
		s.info.BaseCommit, s.headTree = s.user.HeadCommit, s.user.HeadTree
	}
	s.info.Dirty = status.Dirty
	if err := s.chooseIgnored(status.Ignored); err != nil {
		return err
	}
	s.info.IncludedDirty = status.Dirty && s.options.IncludeDirty
	s.warnUntracked("", &s.user)
	if !s.info.IncludedDirty {
		return nil
	}
	for _, m := range status.Modified {
		s.warnUntracked(m.Path, m.User)
	}
	return s.user.CheckSize(s.options.Limits.SnapshotBytes)
}

// warnUntracked warns of untracked files of a repository, at a path of the tree, that no snapshot has.
func (s *Source) warnUntracked(at string, user *git.UserRepository) {
	for _, nested := range user.Status.Nested {
		s.info.Warnings = append(s.info.Warnings, Warning{Code: warnNestedRepository, Path: folder.Join(at, nested),
			Message: "an untracked repository is not part of the workspace"})
	}
	if user.Status.WithoutUntracked {
		s.info.Warnings = append(s.info.Warnings, Warning{Code: warnSlowIgnore, Path: at,
			Message: "the ignore rules of the repository take git too long; untracked files are not part of the " +
				"workspace"})
	}
}
