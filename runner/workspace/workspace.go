// Package workspace gives a run a private working tree of the user's
// directory, says what the run changed, and applies that change when asked.
//
// Open inspects the directory (a git repository or a plain directory), Acquire
// takes a recycled tree and brings it to the base, Diff compares the tree with
// the base, Release takes the tree back. Apply merges a patch into the user's
// files.
//
// Invariants. The user's repository is only read until Apply, and Apply changes
// files of the working tree alone, all of them or none. The tree is written by
// a container and therefore hostile: the host compares and reads it name by
// name from open directories, never through a symbolic link, within bounds, and
// never runs git with a working tree or a git directory that a container could
// write. What the host knows of a tree (base, stat data, objects) lies beside
// it, out of the container's reach. A file whose inode, size, mode and times
// equal the record is unchanged, because only the kernel sets change times.
// Content is raw: no line ending, filter or LFS conversion in either direction.
//
// Not promised: a consistent diff while something still writes the tree (stop
// the container first), and the content of submodules in the diff (changes
// there become warnings). A Tree is not for concurrent use; Sources and Trees
// of several processes are, also for one repository.
package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// Options say whose files a Source is made of and where trees are kept.
type Options struct {
	Dir          string // the user's directory: a git working tree, a directory within one, or a plain directory
	IncludeDirty bool   // start from the files as they are now, not from HEAD; always so for a plain directory
	Borrowing    Borrowing
	CacheDir     string // absolute; the host's, never visible in a container except the trees themselves
	Name         string // who will hold the tree, for people; shown in the slot's holder file
	Claim        string // claims the tree beyond the life of the process, e.g. the run's id; "": no claim

	// ContainerObjects is where the runner mounts the object directories,
	// e.g. "/holon/objects"; empty when the agent sees the host's paths.
	ContainerObjects string
	Keep             int // trees kept per repository between runs; 0 means 4
	Limits           Limits

	// Owner is who the tree is for: every file and folder in it is theirs. nil
	// leaves them with this process's user; only root can give files away.
	Owner *Owner
}

// For says who the trees to be acquired are for (Options.Owner).
func (s *Source) For(owner *Owner) { s.options.Owner = owner }

// Owner is a numeric user and group.
type Owner struct{ UID, GID int }

// Limits bound what is taken from a directory. A zero field means its default.
type Limits struct {
	SnapshotBytes int64 // uncommitted files, or a whole plain directory; 4 GiB
	FileBytes     int64 // one changed file in a diff; 128 MiB
	DiffBytes     int64 // all changed files in a diff; 1 GiB
	Files         int   // new paths looked at in a diff, or files of a plain directory; 500,000
	NameBytes     int   // names of the new files in a diff, as JSON; 12 MiB
}

func (l Limits) withDefaults() Limits {
	l.SnapshotBytes = orDefault(l.SnapshotBytes, 4<<30)
	l.FileBytes = orDefault(l.FileBytes, 128<<20)
	l.DiffBytes = orDefault(l.DiffBytes, 1<<30)
	l.Files = orDefault(l.Files, 500_000)
	l.NameBytes = orDefault(l.NameBytes, 12<<20)
	return l
}

func orDefault[T int | int64](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

// Kinds of Info.
const (
	KindGit  = "git"  // a git repository; objects are borrowed
	KindCopy = "copy" // a plain directory; files are copied
)

// Info describes a Source for the run's manifest.
type Info struct {
	Kind          string      `json:"kind"`                  // KindGit or KindCopy
	Path          string      `json:"path"`                  // top of the working tree, links resolved
	Prefix        string      `json:"prefix,omitempty"`      // Options.Dir within it
	BaseCommit    string      `json:"base_commit,omitempty"` // HEAD; empty for an unborn branch or a plain directory
	BaseTree      string      `json:"base_tree,omitempty"`   // what the tree starts from; known after Acquire
	Branch        string      `json:"branch,omitempty"`      // empty when detached
	ObjectFormat  string      `json:"object_format"`         // sha1 or sha256
	Dirty         bool        `json:"dirty"`                 // uncommitted or untracked files existed
	IncludedDirty bool        `json:"included_dirty"`        // and they are part of the base
	Shallow       bool        `json:"shallow,omitempty"`
	Submodules    []Submodule `json:"submodules,omitempty"` // known after Acquire
	Warnings      []Warning   `json:"warnings,omitempty"`
}

// Submodule is a commit entry of the base.
type Submodule struct {
	Path      string `json:"path"`
	Commit    string `json:"commit"`
	Populated bool   `json:"populated"` // its files are in the tree, without a repository
}

// A Source is a directory that trees can be made from. It holds nothing open.
type Source struct {
	options  Options
	info     Info
	format   objectFormat
	headTree string // hex, of the base commit; the empty tree when there is none
	user     userRepository
	cache    repositoryCache
}

// Open inspects options.Dir. It writes nothing but the cache directory.
func Open(ctx context.Context, options Options) (*Source, error) {
	source, err := open(ctx, options)
	return source, typed("open workspace", err)
}

func open(ctx context.Context, options Options) (*Source, error) {
	options.Limits = options.Limits.withDefaults()
	options.Keep = orDefault(options.Keep, 4)
	if !filepath.IsAbs(options.CacheDir) {
		return nil, invalidOption("CacheDir", "the cache directory %q is not an absolute path", options.CacheDir)
	}
	if c := options.ContainerObjects; c != "" && (!filepath.IsAbs(c) || filepath.Clean(c) != c) {
		return nil, invalidOption("ContainerObjects", "the container path %q is not absolute and clean", c)
	}
	dir, err := realDirectory(options.Dir)
	if err != nil {
		return nil, err
	}
	user, err := locate(ctx, dir, options.Borrowing)
	if err != nil {
		return nil, err
	}
	return newSource(ctx, options, dir, user)
}

// newSource inspects a repository, or a plain directory where user is nil.
func newSource(ctx context.Context, options Options, dir string, user *userRepository) (*Source, error) {
	top, place := dir, dir
	if user != nil {
		top, place = user.top, user.gitDir
	}
	if within(top, options.CacheDir) {
		return nil, &Error{Code: CodeInvalidOption, Param: "CacheDir",
			Message: "the state directory " + options.CacheDir + " lies within the workspace " + top,
			Hint:    "name a smaller workspace, or move the state directory (HOLON_HOME)"}
	}
	of, err := originOf(top, place)
	if err != nil {
		return nil, err
	}
	cache, err := openCache(options.CacheDir, of)
	if err != nil {
		return nil, err
	}
	source := &Source{options: options, cache: cache, format: formatSHA1}
	source.info = Info{Kind: KindCopy, Path: top, ObjectFormat: string(formatSHA1), IncludedDirty: true}
	source.headTree = source.format.emptyTree()
	if user == nil {
		return source, nil
	}
	source.user = *user
	return source, source.inspect(ctx)
}

// Info returns what Open found.
func (s *Source) Info() Info { return s.info }

// realDirectory returns the absolute path of a directory, links resolved.
func realDirectory(path string) (string, error) {
	if path == "" {
		return "", invalidOption("Dir", "no directory is named")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(absolute)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(real); err == nil && !info.IsDir() {
			err = errNotDirectory
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDirectory) {
		return "", &Error{Code: CodeNotADirectory, Param: path, Err: err,
			Message: "the workspace " + path + " is not a directory", Hint: "name an existing directory"}
	}
	return real, err
}

// within reports whether path is top or lies beneath it, links resolved as far
// as path exists.
func within(top, path string) bool {
	for rest := ""; ; {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = filepath.Join(real, rest)
			break
		}
		parent := filepath.Dir(path)
		if parent == path {
			break
		}
		rest, path = filepath.Join(filepath.Base(path), rest), parent
	}
	relative, err := filepath.Rel(top, path)
	return err == nil && filepath.IsLocal(relative)
}

var errNotDirectory = errors.New("not a directory")

// inspect learns the rest about the user's repository, in parallel because some
// questions are processes.
func (s *Source) inspect(ctx context.Context) (err error) {
	s.format = s.user.format
	s.headTree = s.format.emptyTree()
	s.info.Kind, s.info.Prefix = KindGit, s.user.prefix
	s.info.ObjectFormat, s.info.Shallow = string(s.format), s.user.shallow != ""
	scratch, err := os.MkdirTemp(s.cache.dir, viewPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	v, err := s.user.view(filepath.Join(scratch, "view"))
	if err != nil {
		return err
	}
	group, groupContext := errgroup.WithContext(ctx)
	group.Go(func() error { return s.user.loadStatus(groupContext, v, 0) })
	group.Go(func() error { return s.user.loadReferences(groupContext) })
	group.Go(func() error { return s.user.loadHeadTree(groupContext, v) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.judge()
}

// judge decides what becomes of uncommitted files.
func (s *Source) judge() error {
	status := s.user.status
	s.info.Branch = s.user.branch
	if s.user.headCommit != "" {
		s.info.BaseCommit, s.headTree = s.user.headCommit, s.user.headTree
	}
	s.info.Dirty = status.dirty
	s.info.IncludedDirty = status.dirty && s.options.IncludeDirty
	for _, nested := range status.nested {
		s.info.Warnings = append(s.info.Warnings, Warning{Code: WarnNestedRepository, Path: nested,
			Message: "an untracked repository is not part of the workspace"})
	}
	if status.withoutUntracked {
		s.info.Warnings = append(s.info.Warnings, Warning{Code: WarnSlowIgnore, Path: "",
			Message: "the ignore rules of the repository take git too long; untracked files are not part of the workspace"})
	}
	if !s.info.IncludedDirty {
		return nil
	}
	if err := status.checkSubmodules(); err != nil {
		return err
	}
	return s.user.checkSize(status.untracked, s.options.Limits.SnapshotBytes)
}
