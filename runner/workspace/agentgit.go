package workspace

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holon/internal/folder"
	"holon/internal/roots"
	"holon/runner/workspace/git"
)

// writeAgentRepository gives the tree a .git of its own: private, disposable, without remotes, hooks or the user's
// configuration, borrowing objects from read-only directories. The host writes it and never reads it again. So has each
// submodule, but where the base can move. A plain directory's tree gets none: tools behave as they do in the user's
// directory.
func (t *Tree) writeAgentRepository(ctx context.Context) error {
	if t.info.Kind == KindCopy {
		return nil
	}
	root, err := roots.Open(t.slot.tree())
	if err != nil {
		return err
	}
	defer root.Close()
	t.objects = t.objectDirs()
	if err := t.writeRepository(root, ".", t.agentFiles()); err != nil {
		return err
	}
	for _, s := range t.moduleRepositories() {
		if err := t.writeRepository(root, s.Path, t.moduleFiles(ctx, s)); err != nil {
			return fmt.Errorf("submodule %q: %w", s.Path, err)
		}
	}
	return nil
}

// writeRepository writes a .git with files into a directory of the tree.
func (t *Tree) writeRepository(root *os.Root, top string, files map[string][]byte) error {
	own := func(name string, mode os.FileMode) error {
		if err := root.Chmod(name, mode); err != nil { // the umask must have no effect
			return err
		}
		if owner := t.source.options.Owner; owner != nil {
			return root.Lchown(name, owner.UID, owner.GID)
		}
		return nil
	}
	for _, dir := range []string{"", "info", "objects", "objects/info", "objects/pack", "refs", "refs/heads",
		"refs/tags"} {
		name := path.Join(top, ".git", dir)
		if err := root.Mkdir(name, 0o755); err != nil {
			return err
		}
		if err := own(name, 0o755); err != nil {
			return err
		}
	}
	for name, content := range files {
		if len(content) == 0 {
			continue
		}
		name = path.Join(top, ".git", name)
		if err := root.WriteFile(name, content, 0o644); err != nil {
			return err
		}
		if err := own(name, 0o644); err != nil {
			return err
		}
	}
	since := t.dirTime(top) // creating .git changed it
	return root.Chtimes(top, since, since)
}

func (t *Tree) agentFiles() map[string][]byte {
	user := &t.source.user
	head := "ref: refs/heads/main\n"
	switch {
	case t.info.Branch != "":
		head = "ref: refs/heads/" + t.info.Branch + "\n"
	case t.info.BaseCommit != "":
		head = t.info.BaseCommit + "\n"
	}
	files := map[string][]byte{
		"HEAD":         []byte(head),
		"config":       []byte(t.agentConfig()),
		"info/exclude": []byte(user.Excludes),
		"index":        t.index,
	}
	files["objects/info/alternates"] = t.agentAlternates()
	files["packed-refs"] = withBranch(user.References, t.info.Branch, t.info.BaseCommit)
	files["shallow"] = []byte(user.Shallow)
	return files
}

func (t *Tree) agentAlternates() []byte {
	var alternates bytes.Buffer
	for _, dir := range t.objects {
		if !dir.transitive {
			alternates.WriteString(alternateLine(dir.ContainerPath))
		}
	}
	return alternates.Bytes()
}

// withBranch returns packed references with a branch at a commit: of a fork, the user's may have moved on.
func withBranch(references []byte, branch, commit string) []byte {
	name := []byte(" refs/heads/" + branch + "\n")
	at := bytes.Index(references, name)
	if branch == "" || at < len(commit) || commit == "" || bytes.HasSuffix(references[:at], []byte(commit)) {
		return references
	}
	return slices.Concat(references[:at-len(commit)], []byte(commit), references[at:])
}

func (t *Tree) agentConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %s\n\tfilemode = true\n\tbare = false\n"+
		"\tlogallrefupdates = true\n"+
		"\tautocrlf = false\n\tsafecrlf = false\n%s[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
		t.source.format.Version(), t.source.format.Extension())
	if t.source.user.UserName != "" || t.source.user.UserEmail != "" {
		fmt.Fprintf(&b, "[user]\n\tname = %s\n\temail = %s\n",
			git.QuoteConfig(t.source.user.UserName), git.QuoteConfig(t.source.user.UserEmail))
	}
	return b.String()
}

// alternateLine quotes a path that git would take for a comment or a quoted string otherwise.
func alternateLine(dir string) string {
	if strings.ContainsAny(dir, "\n\"\\") {
		return git.QuotePath(dir) + "\n"
	}
	return dir + "\n"
}

// objectDirs lists the directories to borrow from. The user's repository may itself borrow: its alternates file names
// paths that git resolves where the agent sees them, so each is mounted at exactly that path.
func (t *Tree) objectDirs() []objectDir {
	if o := t.source.options; o.ObjectsDir != "" {
		return []objectDir{{HostPath: o.ObjectsDir, ContainerPath: cmp.Or(o.ContainerObjects, o.ObjectsDir)}}
	}
	var dirs []objectDir
	add := func(host, container string, transitive bool) {
		known := slices.ContainsFunc(dirs, func(d objectDir) bool { return d.ContainerPath == container })
		if !known && len(dirs) < git.MaxAlternates {
			dirs = append(dirs, objectDir{HostPath: host, ContainerPath: container, transitive: transitive})
		}
	}
	direct := t.source.alternates()
	if t.info.IncludedDirty || t.start != t.info.BaseTree || len(t.begun) > 0 {
		direct = append(direct, t.base.Objects())
	}
	for _, s := range t.moduleRepositories() {
		direct = append(direct, t.source.user.Submodule(s.Path).Objects)
	}
	for i, host := range direct {
		container := host
		if t.source.options.ContainerObjects != "" {
			container = path.Join(t.source.options.ContainerObjects, strconv.Itoa(i))
		}
		add(host, container, false)
	}
	for i := 0; i < len(dirs); i++ {
		for line := range strings.Lines(git.ReadSmall(filepath.Join(dirs[i].HostPath, "info", "alternates"))) {
			if line = strings.TrimRight(line, "\n"); line == "" || line[0] == '#' || line[0] == '"' {
				continue
			}
			if filepath.IsAbs(line) {
				add(filepath.Clean(line), path.Clean(line), true)
			} else {
				add(filepath.Join(dirs[i].HostPath, line), path.Join(dirs[i].ContainerPath, line), true)
			}
		}
	}
	return dirs
}

// followBase moves HEAD of the agent's repository, and its index, to the base, when it is at the commit of the base
// before, so that git in the tree shows the agent's changes alone. An agent that made commits merges or rebases them
// itself. The repository is the agent's: where it is not as the host wrote it, it stays as it is.
func (t *Tree) followBase(root folder.Dir) error {
	if t.change.Head == "" || t.info.BaseCommit == "" || t.source.options.ObjectsDir == "" {
		return nil
	}
	dir, err := root.Sub(".git")
	if err != nil {
		return nil
	}
	defer dir.Close()
	tip, tipErr := git.AgentHead(dir)
	target, err := git.AgentBranch(dir)
	if tipErr != nil || err != nil || tip != t.change.Head && tip != t.info.BaseCommit {
		return nil
	}
	own, _ := splitModules(t.record.entries)
	if err := t.writeThrough(root, path.Join(".git", target), []byte(t.info.BaseCommit+"\n")); err != nil {
		return err
	}
	return t.writeThrough(root, ".git/index", git.EncodeIndex(t.source.format, own))
}

// writeThrough replaces a file of the tree by way of the staged files.
func (t *Tree) writeThrough(root folder.Dir, name string, content []byte) error {
	staged := filepath.Join(t.slot.staged(), name)
	if err := os.MkdirAll(filepath.Dir(staged), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(staged, content, 0o600); err != nil {
		return err
	}
	if owner := t.source.options.Owner; owner != nil {
		if err := os.Lchown(staged, owner.UID, owner.GID); err != nil {
			return err
		}
	}
	if err := os.Chmod(staged, 0o644); err != nil { // the umask must have no effect
		return err
	}
	return t.moveStaged(root, newFile{Path: []byte(name)})
}
