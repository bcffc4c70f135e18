package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"holon/internal/folder"
	"holon/internal/pattern"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"
)

// Bounds on a user's references.
const (
	maxPackedRefs     = 64 << 20
	maxLooseRefs      = 200_000
	maxReferenceDepth = 5 // of symbolic references, as git follows them
)

// readHead reads the branch and the commit from HEAD and the references. They are read as files, without
// following links.
func (u *UserRepository) readHead() error {
	dir, err := folder.Open(u.GitDir)
	if err != nil {
		return u.broken("HEAD", err)
	}
	defer dir.Close()
	commit, target, err := head(dir)
	if err == nil && target != "" {
		commit, err = u.Resolve(target)
	}
	if err != nil {
		return u.broken("HEAD", err)
	}
	u.HeadCommit = commit
	if branch, ok := strings.CutPrefix(target, "refs/heads/"); ok {
		u.Branch = branch
	}
	return nil
}

// AgentHead returns the commit of HEAD of a repository that a container could write, empty if its branch has none.
func AgentHead(gitDir folder.Dir) (string, error) {
	commit, target, err := head(gitDir)
	if err != nil {
		return "", fmt.Errorf("its HEAD can't be used: %w", err)
	}
	if target == "" {
		return commit, nil
	}
	branch, ok := strings.CutPrefix(target, "refs/heads/")
	if !ok {
		return "", fmt.Errorf("HEAD is at %.100q", target)
	}
	if err := CheckBranch(branch); err != nil {
		return "", err
	}
	return resolve(gitDir, target)
}

// AgentBranch returns the file beneath an agent's git directory that says which commit is checked out: a branch's, or
// HEAD itself.
func AgentBranch(gitDir folder.Dir) (string, error) {
	_, target, err := head(gitDir)
	if err == nil && target == "" {
		target = "HEAD"
	}
	return target, err
}

// head returns the commit or the reference that HEAD is at.
func head(gitDir folder.Dir) (commit, target string, err error) {
	line, err := readLine(gitDir, "HEAD")
	if err != nil || ObjectID().MatchString(line) {
		return line, "", err
	}
	target, err = symbolic(line)
	return "", target, err
}

// symbolic returns what "ref: NAME" names.
func symbolic(line string) (string, error) {
	target, ok := strings.CutPrefix(line, "ref:")
	target = strings.TrimSpace(target)
	if !ok || !strings.HasPrefix(target, "refs/") || plumbing.ReferenceName(target).Validate() != nil {
		return "", fmt.Errorf("it holds %.100q", line)
	}
	return target, nil
}

// Resolve returns the object that a reference leads to, "" when there is no such reference.
func (u *UserRepository) Resolve(name string) (string, error) {
	dir, err := folder.Open(u.CommonDir)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return resolve(dir, name)
}

func resolve(gitDir folder.Dir, name string) (string, error) {
	at := folder.NewCursor(gitDir, false)
	defer at.Close()
	for range maxReferenceDepth {
		parent, base, err := at.Parent(name)
		line := ""
		if err == nil {
			line, err = readLine(parent, base)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, folder.ErrNotRegular):
			packed := map[string]string{}
			err = addPacked(packed, gitDir, func(other string) bool { return other == name })
			return packed[name], err
		case err != nil:
			return "", fmt.Errorf("read %.200q: %w", name, err)
		case ObjectID().MatchString(line):
			return line, nil
		}
		if name, err = symbolic(line); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%.200q is a reference to too many others", name)
}

// packedHeader begins a packed-refs file whose lines are sorted.
const packedHeader = "# pack-refs with: sorted \n"

// LoadReferences lists the references that the agent's repository shows: branches, tags and remote branches, as a
// packed-refs file.
func (u *UserRepository) LoadReferences(ctx context.Context) error {
	dir, err := folder.Open(u.CommonDir)
	if err != nil {
		return u.broken("references", err)
	}
	defer dir.Close()
	found, err := references(ctx, dir, maxLooseRefs, shownReference)
	if err != nil {
		return u.broken("references", err)
	}
	out := bytes.NewBufferString(packedHeader)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		id := found[name]
		if target, err := symbolic(id); err == nil {
			id, _ = resolve(dir, target) // unless it refers to itself, or is damaged
		}
		if ObjectID().MatchString(id) && strings.Trim(id, "0") != "" {
			out.WriteString(id + " " + name + "\n")
		}
	}
	u.References = out.Bytes()
	return nil
}

// ReferenceIDs lists what the references hold that LoadReferences found, each once.
func (u *UserRepository) ReferenceIDs() (ids []string) {
	for line := range strings.Lines(string(u.References)) {
		if id, _, _ := strings.Cut(line, " "); ObjectID().MatchString(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// shownReference reports whether the agent's repository shows a reference.
func shownReference(name string) bool {
	shown := slices.ContainsFunc([]string{"refs/heads/", "refs/tags/", "refs/remotes/"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	return shown && !strings.HasSuffix(name, ".lock") && plumbing.ReferenceName(name).Validate() == nil
}

// references reads the references that are shown, of which at most so many have files of their own: what each holds by
// its name, "" where that can't be read.
func references(ctx context.Context, gitDir folder.Dir, most int, shown func(string) bool) (map[string]string, error) {
	refs, err := gitDir.Sub("refs")
	if err != nil {
		return nil, err
	}
	defer refs.Close()
	var mu sync.Mutex
	found := map[string]string{}
	visit := func(dir folder.Dir, path string, names []string) (descend []string, err error) {
		for _, name := range names {
			st, err := dir.Lstat(name)
			if err != nil {
				continue // removed meanwhile
			}
			full := folder.Join(path, name)
			switch {
			case st.Mode&unix.S_IFMT == unix.S_IFDIR && strings.Count(path, "/") < folder.MaxDepth:
				if path != "refs" || shown(full+"/x") {
					descend = append(descend, name)
				}
			case shown(full):
				line, _ := readLine(dir, name) // "" if it is no file
				mu.Lock()
				found[full] = line
				many := len(found) > most
				mu.Unlock()
				if many {
					return nil, fmt.Errorf("there are more than %d files; `git pack-refs --all` makes them one", most)
				}
			}
		}
		return descend, nil
	}
	if err := folder.Walk(ctx, refs, "refs", visit, func(_ string, err error) error { return err }); err != nil {
		return nil, err
	}
	return found, addPacked(found, gitDir, shown)
}

// addPacked adds the references of packed-refs that are shown and have no file of their own.
func addPacked(found map[string]string, gitDir folder.Dir, shown func(string) bool) error {
	file, st, err := gitDir.OpenFile("packed-refs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if st.Size > maxPackedRefs {
		return fmt.Errorf("its packed-refs has more than %d bytes", maxPackedRefs)
	}
	lines := bufio.NewScanner(io.LimitReader(file, maxPackedRefs))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' || line[0] == '^' {
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || !ObjectID().MatchString(id) {
			return fmt.Errorf("packed-refs has the line %.100q", line)
		}
		if found[name] == "" && shown(name) {
			found[name] = id
		}
	}
	return lines.Err()
}

// LoadHeadTree finds the tree of HEAD's commit, through a view.
func (u *UserRepository) LoadHeadTree(ctx context.Context, v View) (err error) {
	if u.HeadCommit != "" {
		u.HeadTree, err = v.Git().Line(ctx, "rev-parse", "--verify", u.HeadCommit+"^{tree}")
	}
	return err
}

// Commits returns those of the ids that are commits, or tags, which a repository has.
func (r Repository) Commits(ctx context.Context, ids []string) (present []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := r.Git().Run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file",
		"--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) { // "ID missing" where there is none
		if id, kind, _ := strings.Cut(strings.TrimSpace(line), " "); kind == "commit" || kind == "tag" {
			present = append(present, id)
		}
	}
	return present, nil
}

// readLine returns the first line of a small regular file.
func readLine(dir folder.Dir, name string) (string, error) {
	file, st, err := dir.OpenFile(name)
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

var ObjectID = pattern.Lazy(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
