package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"holon/internal/folder"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
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
	head, err := ReadLine(dir, "HEAD")
	if err != nil || ObjectID.MatchString(head) {
		u.HeadCommit = head
		return u.brokenIf("HEAD", err)
	}
	target, err := symbolic(head)
	if err != nil {
		return u.broken("HEAD", err)
	}
	u.Branch, _ = strings.CutPrefix(target, "refs/heads/")
	if u.Branch == target {
		u.Branch = ""
	}
	u.HeadCommit, err = u.Resolve(target)
	return u.brokenIf("HEAD", err)
}

func (u *UserRepository) brokenIf(part string, err error) error {
	if err == nil {
		return nil
	}
	return u.broken(part, err)
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

// Resolve returns the object that a reference leads to, "" when there is no
// such reference.
func (u *UserRepository) Resolve(name string) (string, error) {
	dir, err := folder.Open(u.CommonDir)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	at := folder.NewCursor(dir, false)
	defer at.Close()
	for range maxReferenceDepth {
		parent, base, err := at.Parent(name)
		line := ""
		if err == nil {
			line, err = ReadLine(parent, base)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, folder.ErrNotRegular):
			return PackedReference(dir, name)
		case err != nil:
			return "", fmt.Errorf("read %.200q: %w", name, err)
		case ObjectID.MatchString(line):
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
	loose, err := u.looseReferences(ctx)
	if err != nil {
		return u.broken("references", err)
	}
	list, err := u.packedReferences(loose)
	if err != nil {
		return u.broken("references", err)
	}
	for name, line := range loose {
		if target, err := symbolic(line); err == nil {
			if line, err = u.Resolve(target); err != nil {
				continue // it refers to itself, or is damaged
			}
		}
		if ObjectID.MatchString(line) && strings.Trim(line, "0") != "" {
			list = append(list, name+" "+line)
		}
	}
	slices.Sort(list)
	out := bytes.NewBufferString(packedHeader)
	for _, line := range list {
		name, id, _ := strings.Cut(line, " ")
		out.WriteString(id + " " + name + "\n")
	}
	u.References = out.Bytes()
	return nil
}

// ReferenceIDs lists what the references hold that LoadReferences found, each once.
func (u *UserRepository) ReferenceIDs() (ids []string) {
	for line := range strings.Lines(string(u.References)) {
		if id, _, _ := strings.Cut(line, " "); ObjectID.MatchString(id) {
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

// looseReferences reads the files of the user's references.
func (u *UserRepository) looseReferences(ctx context.Context) (map[string]string, error) {
	refs, err := folder.Open(filepath.Join(u.CommonDir, "refs"))
	if err != nil {
		return nil, err
	}
	defer refs.Close()
	return looseIn(ctx, refs, maxLooseRefs, shownReference)
}

// looseIn reads the files of references that are shown: what each holds by its name.
func looseIn(ctx context.Context, refs folder.Dir, most int, shown func(string) bool) (map[string]string, error) {
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
			case st.Mode&unix.S_IFMT == unix.S_IFREG && shown(full):
				line, err := ReadLine(dir, name)
				if err != nil {
					continue
				}
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
	return found, folder.Walk(ctx, refs, "refs", visit, func(_ string, err error) error { return err })
}

// packedReferences lists "NAME ID" of the user's packed-refs but for those in except.
func (u *UserRepository) packedReferences(except map[string]string) ([]string, error) {
	dir, err := folder.Open(u.CommonDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return packedIn(dir, except, shownReference)
}

// packedIn lists "NAME ID" of the references of packed-refs that are shown, but for those in except.
func packedIn(gitDir folder.Dir, except map[string]string, shown func(string) bool) ([]string, error) {
	file, st, err := gitDir.OpenFile("packed-refs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if st.Size > maxPackedRefs {
		return nil, errTooManyReferences
	}
	var list []string
	lines := bufio.NewScanner(io.LimitReader(file, maxPackedRefs))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' || line[0] == '^' {
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || !ObjectID.MatchString(id) {
			return nil, fmt.Errorf("packed-refs has the line %.100q", line)
		}
		if _, newer := except[name]; !newer && shown(name) {
			list = append(list, name+" "+id)
		}
	}
	return list, lines.Err()
}

// LoadHeadTree finds the tree of HEAD's commit: in its file if it is a loose object, otherwise with git,
// through a view.
func (u *UserRepository) LoadHeadTree(ctx context.Context, v View) (err error) {
	if u.HeadCommit == "" {
		return nil
	}
	if u.HeadTree = u.looseTree(u.HeadCommit); u.HeadTree == "" {
		u.HeadTree, err = v.Git().Line(ctx, "rev-parse", "--verify", u.HeadCommit+"^{tree}")
	}
	return err
}

// looseTree reads the beginning of a commit, "tree ID"; "" when that can't be done.
func (u *UserRepository) looseTree(commit string) string {
	file, err := openIn(u.Objects, commit[:2]+"/"+commit[2:])
	if err != nil {
		return ""
	}
	defer file.Close()
	object, err := objfile.NewReader(file)
	if err != nil {
		return ""
	}
	defer object.Close()
	kind, _, err := object.Header()
	if err != nil || kind != plumbing.CommitObject {
		return ""
	}
	line := make([]byte, len("tree ")+2*u.Format.Size())
	if _, err := io.ReadFull(object, line); err != nil {
		return ""
	}
	id, ok := strings.CutPrefix(string(line), "tree ")
	if !ok || !ObjectID.MatchString(id) {
		return ""
	}
	return id
}

// AgentReferences returns the branches, the tags and the stash of a repository that a container could write. Symbolic
// references are left out: they lead to one of these. More than most files of them are an error. Names are not checked.
func AgentReferences(ctx context.Context, gitDir folder.Dir, most int) (map[string]string, error) {
	refs, err := gitDir.Sub("refs")
	if err != nil {
		return nil, fmt.Errorf("its references can't be read: %w", err)
	}
	defer refs.Close()
	shown := func(name string) bool {
		return name == "refs/stash" || !strings.HasSuffix(name, ".lock") &&
			(strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/"))
	}
	found, err := looseIn(ctx, refs, most, shown)
	if err != nil {
		return nil, fmt.Errorf("its references can't be read: %w", err)
	}
	packed, err := packedIn(gitDir, found, shown)
	if err != nil {
		return nil, fmt.Errorf("its references can't be read: %w", err)
	}
	for _, line := range packed {
		name, id, _ := strings.Cut(line, " ")
		found[name] = id
	}
	for name, id := range found {
		if !ObjectID.MatchString(id) {
			delete(found, name)
		}
	}
	return found, nil
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

// ReadLine returns the first line of a small regular file.
func ReadLine(dir folder.Dir, name string) (string, error) {
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

// PackedReference finds a reference in packed-refs, which holds "id SP name"
// lines; empty when it is not there.
func PackedReference(gitDir folder.Dir, ref string) (string, error) {
	file, st, err := gitDir.OpenFile("packed-refs")
	if err != nil {
		return "", nil // no such file, or none that counts
	}
	defer file.Close()
	if st.Size > maxPackedRefs {
		return "", errTooManyReferences
	}
	lines := bufio.NewScanner(io.LimitReader(file, maxPackedRefs))
	for lines.Scan() {
		if id, name, ok := strings.Cut(lines.Text(), " "); ok && name == ref && ObjectID.MatchString(id) {
			return id, nil
		}
	}
	return "", lines.Err()
}

var errTooManyReferences = fmt.Errorf("its packed-refs has more than %d bytes", maxPackedRefs)

var ObjectID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
