package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"golang.org/x/sys/unix"

	"holon/internal/folder"
	"holon/internal/gitname"
	"holon/responses"
)

// Bounds of a repository's objects.
const (
	maxObject   = 16 << 20 // commits and trees
	maxBuffered = 1 << 20  // larger files are streamed
	cacheBytes  = 8 << 20
)

// checkout writes the files of HEAD to a fresh tree, with a repository of its own that borrows the objects, and returns
// where the origin lies in it. No program runs: the content is that of the objects, without filters or line endings.
func checkout(ctx context.Context, o Options, tree folder.Dir, fresh bool) (prefix string, err error) {
	top, err := findRepository(o.Root, o.Origin)
	if err != nil {
		return "", err
	}
	if fresh {
		if err := export(ctx, top, tree); err != nil {
			return "", err
		}
	}
	prefix, err = filepath.Rel(top, o.Origin)
	if err != nil || prefix == "." {
		return "", err
	}
	at := folder.NewCursor(tree, false)
	defer at.Close()
	dir, name, err := at.Parent(prefix)
	if err == nil {
		if kind, _, _ := look(&dir, name); kind == directory {
			return prefix, nil
		}
	}
	return "", responses.Invalid("holon.workspace_dir", responses.CodeInvalidValue,
		fmt.Sprintf("the private tree has no directory %.200q", prefix))
}

// export writes what the repository at top has at HEAD to tree.
func export(ctx context.Context, top string, tree folder.Dir) error {
	r, err := openRepository(filepath.Join(top, ".git"))
	if err != nil {
		return unusable(top, err)
	}
	defer r.store.Close()
	if err := r.export(ctx, tree); err != nil {
		if e, ok := errors.AsType[*responses.Error](err); ok {
			return e
		}
		if errors.Is(err, errWrite) || context.Cause(ctx) != nil {
			return err
		}
		return unusable(top, err)
	}
	if err := r.writeOwn(tree); err != nil {
		return written("", ".git", err)
	}
	return nil
}

// findRepository returns the directory with .git that holds dir, which is not looked for above root.
func findRepository(root, dir string) (string, error) {
	refuse := func(why, hint string) error {
		e := responses.Invalid("holon.isolation", responses.CodeInvalidValue,
			fmt.Sprintf("the isolation worktree needs a git repository: %s %s", dir, why))
		e.Hint = hint
		return e
	}
	for top := dir; ; top = filepath.Dir(top) {
		info, err := os.Lstat(filepath.Join(top, ".git"))
		switch {
		case err == nil && info.IsDir():
			return top, nil
		case err == nil:
			return "", refuse("keeps its repository elsewhere", "use the isolation copy, or the main working tree")
		case !errors.Is(err, fs.ErrNotExist):
			return "", refuse("cannot be looked at", "use the isolation copy")
		case top == root || top == "/" || !strings.HasPrefix(top, root):
			return "", refuse("is in none", "use the isolation copy, or name a repository as holon.workspace_dir")
		}
	}
}

func unusable(top string, cause error) error {
	e := responses.Invalid("holon.isolation", responses.CodeInvalidValue,
		fmt.Sprintf("the repository of %s cannot be read: %.300s", top, cause))
	e.Hint, e.Cause = "check it with git fsck, or use the isolation copy", cause
	return e
}

// repository reads objects and references of a repository that has all its objects, and writes the tree of its HEAD.
type repository struct {
	store   *filesystem.Storage
	objects string // its object directory
	shallow []byte
	branch  string // "" when HEAD is detached
	head    plumbing.Hash
	budget  budget
	entries []*index.Entry // of what is written
}

func openRepository(gitDir string) (*repository, error) {
	r := &repository{objects: filepath.Join(gitDir, "objects")}
	r.store = filesystem.NewStorageWithOptions(readOnly(gitDir), cache.NewObjectLRU(cacheBytes),
		filesystem.Options{KeepDescriptors: true, LargeObjectThreshold: maxBuffered})
	head, err := r.store.Reference(plumbing.HEAD)
	if err != nil {
		return nil, fmt.Errorf("HEAD: %w", err)
	}
	if head.Type() == plumbing.SymbolicReference {
		if err := head.Target().Validate(); err != nil {
			return nil, fmt.Errorf("HEAD: %w", err)
		}
		r.branch = head.Target().String()
	}
	commit, err := storer.ResolveReference(r.store, plumbing.HEAD)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return nil, errors.New("HEAD names no commit: nothing is committed, or references are kept in another format")
	}
	if err != nil {
		return nil, fmt.Errorf("HEAD: %w", err)
	}
	r.head = commit.Hash()
	if dir, err := folder.Open(gitDir); err == nil {
		r.shallow = readFile(dir, "shallow")
		dir.Close()
	}
	return r, nil
}

// readFile returns the beginning of a file, nil when there is none.
func readFile(dir folder.Dir, name string) []byte {
	f, _, err := dir.OpenFile(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return data
}

// object opens an object of at most limit bytes.
func (r *repository) object(t plumbing.ObjectType, id plumbing.Hash, limit int64) (plumbing.EncodedObject, error) {
	size, err := r.store.EncodedObjectSize(id)
	if err == nil && size > limit {
		return nil, fmt.Errorf("%s %s has %d bytes", t, id, size)
	}
	var obj plumbing.EncodedObject
	if err == nil {
		obj, err = r.store.EncodedObject(t, id)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", t, id, err)
	}
	return obj, nil
}

// content reads an object of at most limit bytes.
func (r *repository) content(t plumbing.ObjectType, id plumbing.Hash, limit int64) ([]byte, error) {
	obj, err := r.object(t, id, limit)
	if err != nil {
		return nil, err
	}
	in, err := obj.Reader()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, limit))
}

// writeOwn gives the tree a repository of its own: the branch, the commit and an index, no hooks and no remotes.
func (r *repository) writeOwn(tree folder.Dir) error {
	at := folder.NewCursor(tree, true)
	defer at.Close()
	var own bytes.Buffer
	if err := index.NewEncoder(&own).Encode(&index.Index{Version: 2, Entries: r.entries}); err != nil {
		return err
	}
	alternate := r.objects
	if strings.ContainsAny(alternate, "\n\"\\") {
		alternate = quote(alternate)
	}
	files := map[string]string{"HEAD": r.head.String() + "\n", "index": own.String(),
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tautocrlf = false\n" +
			"[gc]\n\tauto = 0\n",
		"objects/info/alternates": alternate + "\n", "refs/.keep": "", "shallow": string(r.shallow)}
	if strings.HasPrefix(r.branch, "refs/heads/") {
		files["HEAD"], files[r.branch] = "ref: "+r.branch+"\n", r.head.String()+"\n"
	}
	for name, data := range files {
		if data == "" && name == "shallow" {
			continue
		}
		dir, base, err := at.Parent(".git/" + name)
		if err != nil {
			return err
		}
		if err := writeFile(dir, base, data); err != nil {
			return err
		}
	}
	return nil
}

// export writes the tree of HEAD.
func (r *repository) export(ctx context.Context, to folder.Dir) error {
	commit, err := r.content(plumbing.CommitObject, r.head, maxObject)
	if err != nil {
		return err
	}
	line, _, _ := bytes.Cut(commit, []byte{'\n'})
	id, ok := strings.CutPrefix(string(line), "tree ")
	if !ok || !plumbing.IsHash(id) || len(id) != 40 {
		return fmt.Errorf("commit %s has no tree", r.head)
	}
	return r.tree(ctx, plumbing.NewHash(id), to, "", 0)
}

func (r *repository) tree(ctx context.Context, id plumbing.Hash, to folder.Dir, path string, depth int) error {
	if depth > maxDepth {
		return tooLarge(fmt.Sprintf("%.200q is nested deeper than %d directories", path, maxDepth))
	}
	data, err := r.content(plumbing.TreeObject, id, maxObject)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		var entry plumbing.Hash
		if !ok || !named || len(rest) < len(entry) {
			return fmt.Errorf("tree %s is malformed", id)
		}
		data = rest[copy(entry[:], rest):]
		if !usable(path, name) {
			return fmt.Errorf("the tree of HEAD has the name %.200q", folder.Join(path, name))
		}
		if err := r.budget.entry(); err != nil {
			return err
		}
		if err := r.entry(ctx, mode, entry, to, path, name, depth); err != nil {
			return err
		}
	}
	return nil
}

// usable reports whether an entry of a tree can be made.
func usable(path, name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/") && !gitname.IsDotGit(name) &&
		len(path)+len(name) < gitname.MaxPath
}

func (r *repository) entry(ctx context.Context, mode string, id plumbing.Hash, to folder.Dir, path, name string,
	depth int) error {
	full := folder.Join(path, name)
	switch mode {
	case "40000", "160000":
		if err := unix.Mkdirat(to.FD, name, 0o755); err != nil {
			return written(path, name, err)
		}
		if mode == "160000" { // a submodule stays empty, as git leaves it
			r.add(full, index.Entry{Hash: id, Mode: 0o160000})
			return nil
		}
		inner, err := to.Sub(name)
		if err != nil {
			return written(path, name, err)
		}
		defer inner.Close()
		return r.tree(ctx, id, inner, full, depth+1)
	case modeLink:
		target, err := r.content(plumbing.BlobObject, id, unix.PathMax-1)
		if err == nil && (len(target) == 0 || bytes.IndexByte(target, 0) >= 0) {
			err = fmt.Errorf("the link %.200q has no possible target", full)
		}
		if err != nil {
			return err
		}
		r.add(full, index.Entry{Hash: id, Mode: 0o120000})
		return written(path, name, unix.Symlinkat(string(target), to.FD, name))
	}
	perm := uint32(0o644)
	if mode == modeExecutable {
		perm = 0o755
	}
	return r.file(id, to, path, name, perm)
}

func (r *repository) file(id plumbing.Hash, to folder.Dir, path, name string, perm uint32) error {
	obj, err := r.object(plumbing.BlobObject, id, maxBytes)
	if err != nil {
		return err
	}
	if err := r.budget.file(obj.Size()); err != nil {
		return err
	}
	in, err := obj.Reader()
	if err != nil {
		return fmt.Errorf("blob %s: %w", id, err)
	}
	defer in.Close()
	r.add(folder.Join(path, name),
		index.Entry{Hash: id, Mode: filemode.FileMode(0o100000 | perm), Size: uint32(obj.Size())})
	return written(path, name, createFile(to, name, io.LimitReader(in, obj.Size()), perm))
}

func (r *repository) add(path string, e index.Entry) {
	e.Name = path
	r.entries = append(r.entries, &e)
}
