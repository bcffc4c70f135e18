package workspace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// WarnHistory says that the agent's own commits were left out, and why. What
// they changed is in the diff all the same.
const WarnHistory = "history_left_out"

// Bounds on what is taken from an agent's repository. An agent that commits
// what it wrote stays far below them.
const (
	maxHistoryCommits = 1000
	maxHistoryObjects = 50_000
	maxHistoryPacks   = 50
	maxHistoryBytes   = 512 << 20 // of packs, and of loose objects unpacked
	maxHistoryFile    = 64 << 20  // packed-refs, which lists the user's references
	historyTime       = 2 * time.Minute
	historyAlloc      = "256m" // memory that git may ask for at once
)

// keepHistory takes over the commits that the agent made on the branch it left
// checked out, when there are any: nil means none. Git never works in the
// agent's repository, and of its files only HEAD, references, loose objects
// and packs are read, as bytes:
//
//	agent's objects ─▶ staging: every object hashed anew ─▶ commits above the base
//	  ─▶ quarantine: index-pack --strict ─▶ objects of the run
//
// Its configuration, index, hooks, attributes, alternates, replacements,
// grafts, shallow file, commit graphs and other references count for nothing.
func (t *Tree) keepHistory(ctx context.Context, root folder, scratch repository, objects string) (*History, error) {
	gitDir, err := root.folder(".git")
	if err != nil {
		return nil, nil // gone, or what no agent needs to commit with
	}
	defer gitDir.close()
	tip, err := agentHead(gitDir)
	if err != nil || tip == "" || tip == t.info.BaseCommit || len(tip) != 2*t.source.format.size() {
		return nil, err
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	history, err := t.importHistory(ctx, gitDir, scratch, objects, tip)
	if parent.Err() == nil && ctx.Err() != nil {
		return nil, fmt.Errorf("reading them took more than %s", historyTime)
	}
	return history, err
}

func (t *Tree) importHistory(ctx context.Context, gitDir folder, scratch repository, objects, tip string) (*History,
	error) {
	base := append([]string{t.base.objects()}, t.base.alternates...)
	staging := repository{dir: filepath.Join(scratch.dir, "staging"), format: t.source.format, alternates: base}
	quarantine := repository{dir: filepath.Join(scratch.dir, "quarantine"), format: t.source.format, alternates: base}
	for _, repo := range []repository{staging, quarantine} {
		if err := t.createBeside(repo); err != nil {
			return nil, err
		}
	}
	store, err := gitDir.folder("objects")
	if err != nil {
		return nil, fmt.Errorf("its objects can't be read: %w", err)
	}
	defer store.close()
	in := &objectImport{format: t.source.format, into: staging}
	if err := in.loose(ctx, store); err != nil {
		return nil, err
	}
	if err := in.packs(ctx, store); err != nil {
		return nil, err
	}
	history, err := t.checkHistory(ctx, staging, tip)
	if err != nil {
		return nil, err
	}
	if _, err := transfer(ctx, staging, quarantine, tip, t.info.BaseCommit, maxHistoryBytes); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(objects, "pack"), 0o700); err != nil {
		return nil, err
	}
	return history, linkObjects(quarantine.objects(), objects)
}

// createBeside makes a repository of ours that knows where the user's shallow
// history ends.
func (t *Tree) createBeside(repo repository) error {
	if err := repo.create(); err != nil {
		return err
	}
	return t.source.user.writeShallow(repo)
}

// checkHistory looks at the commits in a repository of ours: they must stand on
// the base, be few, and end in a tree that may be written to disk.
func (t *Tree) checkHistory(ctx context.Context, staging repository, tip string) (*History, error) {
	g := staging.git().with("GIT_ALLOC_LIMIT=" + historyAlloc)
	span := []string{tip}
	if t.info.BaseCommit != "" {
		span = append(span, "^"+t.info.BaseCommit)
		if _, err := g.run(ctx, nil, "merge-base", "--is-ancestor", t.info.BaseCommit, tip); err != nil {
			if failed, ok := asGitError(err); ok && failed.exit == 1 {
				return nil, errors.New("they don't stand on the commit that the run started from")
			}
			return nil, err
		}
	}
	count, err := g.line(ctx, append([]string{"rev-list", "--count",
		"--max-count=" + strconv.Itoa(maxHistoryCommits+1)}, span...)...)
	if err != nil {
		return nil, err
	}
	commits, err := strconv.Atoi(count)
	if err != nil || commits > maxHistoryCommits {
		return nil, fmt.Errorf("there are more than %d", maxHistoryCommits)
	}
	check := &treeCheck{format: t.source.format, left: maxHistoryTree}
	err = g.stream(ctx, nil, check, "ls-tree", "-r", "-z", "--full-tree", tip)
	if check.err != nil {
		err = check.err
	}
	if err != nil {
		return nil, err
	}
	return &History{Commit: tip, Commits: commits}, nil
}

// maxHistoryTree bounds the listing of the tree that an agent's commits end in, in
// bytes: a tree of a few objects can hold itself a million times.
const maxHistoryTree = 64 << 20

// treeCheck takes `git ls-tree -r -z` and checks each path, keeping none.
type treeCheck struct {
	format objectFormat
	left   int // bytes that may come
	rest   []byte
	err    error
}

// Write implements io.Writer. An error ends git.
func (c *treeCheck) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		c.err = errors.New("their files are too many")
		return 0, c.err
	}
	c.rest = append(c.rest, p...)
	whole := bytes.LastIndexByte(c.rest, 0) + 1
	if _, c.err = parseTree(c.format, c.rest[:whole], ""); c.err != nil {
		return 0, c.err
	}
	c.rest = append(c.rest[:0], c.rest[whole:]...)
	return len(p), nil
}

// agentHead returns the commit that an agent's HEAD leads to, empty when it
// leads nowhere.
func agentHead(gitDir folder) (string, error) {
	head, err := readLine(gitDir, "HEAD")
	if err != nil || objectID.MatchString(head) {
		return head, err
	}
	ref, ok := strings.CutPrefix(head, "ref: ")
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	if !ok || !isBranch {
		return "", fmt.Errorf("HEAD is %.100q", head)
	}
	if err := checkBranch(branch); err != nil {
		return "", err
	}
	at := newCursor(gitDir, false)
	defer at.close()
	if dir, name, err := at.parent(ref); err == nil {
		if id, err := readLine(dir, name); err == nil {
			if !objectID.MatchString(id) {
				return "", fmt.Errorf("the branch holds %.100q", id)
			}
			return id, nil
		}
	}
	return packedReference(gitDir, ref)
}

// readLine returns the first line of a small regular file.
func readLine(dir folder, name string) (string, error) {
	file, st, err := dir.file(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if st.Size > 4096 {
		return "", fmt.Errorf("%s is too large", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, 4096))
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimRight(line, " \r"), err
}

// packedReference finds a reference in packed-refs, which holds "id SP name"
// lines; empty when it is not there.
func packedReference(gitDir folder, ref string) (string, error) {
	file, st, err := gitDir.file("packed-refs")
	if err != nil {
		return "", nil // no such file, or none that counts
	}
	defer file.Close()
	if st.Size > maxHistoryFile {
		return "", errTooManyReferences
	}
	lines := bufio.NewScanner(io.LimitReader(file, maxHistoryFile))
	for lines.Scan() {
		if id, name, ok := strings.Cut(lines.Text(), " "); ok && name == ref && objectID.MatchString(id) {
			return id, nil
		}
	}
	return "", lines.Err()
}

var errTooManyReferences = fmt.Errorf("its packed-refs has more than %d bytes", maxHistoryFile)

// objectImport copies objects of an agent's repository into one of ours.
type objectImport struct {
	format objectFormat
	into   repository
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

// packs feeds the agent's packs to git in our repository, which reads every
// object of them and computes its id; the agent's indexes are not looked at.
func (in *objectImport) packs(ctx context.Context, store folder) error {
	dir, err := store.folder("pack")
	if err != nil {
		return nil
	}
	defer dir.close()
	names, err := dir.names()
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

func (in *objectImport) pack(ctx context.Context, dir folder, name string) error {
	file, st, err := dir.file(name)
	if err != nil {
		return fmt.Errorf("a pack can't be read: %w", err)
	}
	defer file.Close()
	var header [12]byte // "PACK", version, number of objects
	if _, err := io.ReadFull(file, header[:]); err != nil || string(header[:4]) != "PACK" {
		return errors.New("a pack is none")
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
	g := in.into.git().with("GIT_ALLOC_LIMIT=" + historyAlloc).withConfig("core.fsync=none").within(packTime)
	_, err = g.run(ctx, io.LimitReader(file, st.Size), "index-pack", "--stdin",
		"--max-input-size="+strconv.FormatInt(maxHistoryBytes, 10))
	if err != nil {
		return unsafeObjects(err)
	}
	return nil
}
