package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
	"golang.org/x/sys/unix"
)

// Bounds on a user's references.
const (
	maxPackedRefs     = maxHistoryFile
	maxLooseRefs      = 200_000
	maxReferenceDepth = 5 // of symbolic references, as git follows them
)

// readHead learns the branch and the commit from HEAD and the references, which
// are read as files, no link followed.
func (u *userRepository) readHead() error {
	dir, err := openFolder(u.gitDir)
	if err != nil {
		return u.broken("HEAD", err)
	}
	defer dir.close()
	head, err := readLine(dir, "HEAD")
	if err != nil || objectID.MatchString(head) {
		u.headCommit = head
		return u.brokenIf("HEAD", err)
	}
	target, err := symbolic(head)
	if err != nil {
		return u.broken("HEAD", err)
	}
	u.branch, _ = strings.CutPrefix(target, "refs/heads/")
	if u.branch == target {
		u.branch = ""
	}
	u.headCommit, err = u.resolve(target)
	return u.brokenIf("HEAD", err)
}

func (u *userRepository) brokenIf(part string, err error) error {
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

// resolve returns the object that a reference leads to, "" when there is no
// such reference.
func (u *userRepository) resolve(name string) (string, error) {
	dir, err := openFolder(u.commonDir)
	if err != nil {
		return "", err
	}
	defer dir.close()
	at := newCursor(dir, false)
	defer at.close()
	for range maxReferenceDepth {
		parent, base, err := at.parent(name)
		line := ""
		if err == nil {
			line, err = readLine(parent, base)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, errNotRegular):
			return packedReference(dir, name)
		case err != nil:
			return "", fmt.Errorf("read %.200q: %w", name, err)
		case objectID.MatchString(line):
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

// loadReferences lists what the agent's repository shows of the user's:
// branches, tags and remote branches, as a packed-refs file.
func (u *userRepository) loadReferences(ctx context.Context) error {
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
			if line, err = u.resolve(target); err != nil {
				continue // leads to itself, or is damaged
			}
		}
		if objectID.MatchString(line) && strings.Trim(line, "0") != "" {
			list = append(list, name+" "+line)
		}
	}
	slices.Sort(list)
	out := bytes.NewBufferString(packedHeader)
	for _, line := range list {
		name, id, _ := strings.Cut(line, " ")
		out.WriteString(id + " " + name + "\n")
	}
	u.references = out.Bytes()
	return nil
}

// shownReference reports whether the agent gets to see a reference.
func shownReference(name string) bool {
	shown := slices.ContainsFunc([]string{"refs/heads/", "refs/tags/", "refs/remotes/"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	return shown && !strings.HasSuffix(name, ".lock") && plumbing.ReferenceName(name).Validate() == nil
}

// looseReferences reads the files of references: what each holds by its name.
func (u *userRepository) looseReferences(ctx context.Context) (map[string]string, error) {
	refs, err := openFolder(filepath.Join(u.commonDir, "refs"))
	if err != nil {
		return nil, err
	}
	defer refs.close()
	var mu sync.Mutex
	found := map[string]string{}
	visit := func(dir folder, path string, names []string) (descend []string, err error) {
		for _, name := range names {
			st, err := dir.lstat(name)
			if err != nil {
				continue // gone meanwhile
			}
			full := joinPath(path, name)
			switch {
			case st.Mode&unix.S_IFMT == unix.S_IFDIR && strings.Count(path, "/") < maxDepth:
				if path != "refs" || shownReference(full+"/x") {
					descend = append(descend, name)
				}
			case st.Mode&unix.S_IFMT == unix.S_IFREG && shownReference(full):
				line, err := readLine(dir, name)
				if err != nil {
					continue
				}
				mu.Lock()
				found[full] = line
				many := len(found) > maxLooseRefs
				mu.Unlock()
				if many {
					return nil, fmt.Errorf("there are more than %d files; `git pack-refs --all` makes them one",
						maxLooseRefs)
				}
			}
		}
		return descend, nil
	}
	return found, walkTree(ctx, refs, "refs", visit, func(_ string, err error) error { return err })
}

// packedReferences lists "NAME ID" of packed-refs but for those in except.
func (u *userRepository) packedReferences(except map[string]string) ([]string, error) {
	file, err := openIn(u.commonDir, "packed-refs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() > maxPackedRefs {
		return nil, errors.Join(err, errTooManyReferences)
	}
	var list []string
	lines := bufio.NewScanner(io.LimitReader(file, maxPackedRefs))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' || line[0] == '^' {
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || !objectID.MatchString(id) {
			return nil, fmt.Errorf("packed-refs has the line %.100q", line)
		}
		if _, newer := except[name]; !newer && shownReference(name) {
			list = append(list, name+" "+id)
		}
	}
	return list, lines.Err()
}

// loadHeadTree learns the tree of HEAD's commit: from its file when it is a
// loose object, else from git, through a view.
func (u *userRepository) loadHeadTree(ctx context.Context, v view) (err error) {
	if u.headCommit == "" {
		return nil
	}
	if u.headTree = u.looseTree(u.headCommit); u.headTree == "" {
		u.headTree, err = v.git().line(ctx, "rev-parse", "--verify", u.headCommit+"^{tree}")
	}
	return err
}

// looseTree reads the beginning of a commit, "tree ID"; "" when that can't be done.
func (u *userRepository) looseTree(commit string) string {
	file, err := openIn(u.objects, commit[:2]+"/"+commit[2:])
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
	line := make([]byte, len("tree ")+2*u.format.size())
	if _, err := io.ReadFull(object, line); err != nil {
		return ""
	}
	id, ok := strings.CutPrefix(string(line), "tree ")
	if !ok || !objectID.MatchString(id) {
		return ""
	}
	return id
}
