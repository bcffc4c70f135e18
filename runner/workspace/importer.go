package workspace

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// importChanges writes a tree to repo: base, with trees in the place of some submodules, or the reverse, without the
// deleted paths and with the files of the captured directory. It returns the tree's id. Deletions come first, so that a
// file may take the place of a directory.
func (c *capture) importChanges(ctx context.Context, repo git.Repository, base string, modules []moduleTree,
	deleted []string, files []found) (tree string, err error) {
	if len(modules)+len(deleted)+len(files) == 0 {
		return base, nil
	}
	p, err := repo.Git().WithConfig("core.fsync=none", "fastimport.unpackLimit=0").Start(ctx, "fast-import", "--quiet",
		"--done", "--force")
	if err != nil {
		return "", err
	}
	if err = c.writeImport(ctx, p.In, base, modules, deleted, files); err == nil {
		err = p.FinishInput()
	}
	if err != nil {
		p.Kill() // git must not finish an incomplete stream
		return "", errors.Join(fmt.Errorf("import changes: %w", err), p.Close())
	}
	answer, err := p.Out.ReadString('\n')
	if closeErr := p.Close(); closeErr != nil {
		return "", fmt.Errorf("import changes: %w", closeErr)
	}
	return parseListed(repo.Format, answer, err)
}

// parseListed reads fast-import's answer to `ls ""`.
func parseListed(format git.ObjectFormat, answer string, err error) (string, error) {
	if strings.HasPrefix(answer, "missing") {
		return format.EmptyTree(), nil
	}
	fields := strings.Fields(answer)
	if len(fields) < 3 || fields[1] != "tree" || len(fields[2]) != hex.EncodedLen(format.Size()) {
		return "", errors.Join(fmt.Errorf("import changes: git answered %.100q", answer), err)
	}
	return fields[2], nil
}

func (c *capture) writeImport(ctx context.Context, w io.Writer, base string, modules []moduleTree, deleted []string,
	files []found) error {
	fmt.Fprintf(w, "commit refs/holon/result\ncommitter holon <holon> 0 +0000\ndata 0\n")
	if base != c.record.format.EmptyTree() {
		fmt.Fprintf(w, "M 040000 %s \"\"\n", base)
	}
	for _, m := range modules {
		fmt.Fprintf(w, "M %s %s %s\n", m.mode, m.id, git.QuotePath(m.path))
	}
	for _, path := range deleted {
		fmt.Fprintf(w, "D %s\n", git.QuotePath(path))
	}
	at := folder.NewCursor(c.root, false)
	defer at.Close()
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		write := c.writeFile
		if f.mode == git.ModeSymlink {
			write = c.writeLink
		}
		if err := write(w, at, f); err != nil {
			return fmt.Errorf("%q: %w", f.path, err)
		}
	}
	_, err := io.WriteString(w, "ls \"\"\n\ndone\n")
	return err
}

// writeFile writes one regular file. It omits a file that can't be opened; a file that can't be read to its
// end is an error, because the stream can't be repaired.
func (c *capture) writeFile(w io.Writer, at *folder.Cursor, f found) error {
	file, size, err := c.open(at, f)
	if err != nil {
		c.omit(f.path, warnUnreadable, err.Error())
		return nil
	}
	defer file.Close()
	if size > c.limits.FileBytes {
		c.omit(f.path, warnFileTooLarge, "the file grew past the limit while it was compared")
		return nil
	}
	fmt.Fprintf(w, "M %o inline %s\ndata %d\n", f.mode, git.QuotePath(f.path), size)
	lines := &lineCounter{to: w}
	if _, err := io.CopyN(lines, file, size); err != nil {
		return err
	}
	if lines.n > maxLines {
		c.long = append(c.long, f.path)
		c.warn(warnManyLines, f.path, fmt.Sprintf("the file has more than %d lines and is compared as binary data",
			maxLines))
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// Bounds of files that git compares line by line, for which it needs about forty bytes a line: the lines of a
// file of the result, and the bytes of a file of the base.
const (
	maxLines    = 1_000_000
	maxBaseText = 16 << 20
)

type lineCounter struct {
	to io.Writer
	n  int
}

func (l *lineCounter) Write(p []byte) (int, error) {
	l.n += bytes.Count(p, []byte{'\n'})
	return l.to.Write(p)
}

// writeAttributes makes git treat files with too many lines as binary, by the attributes of our repository in
// which they are compared.
func (c *capture) writeAttributes(repo git.Repository) error {
	for i, e := range c.record.entries {
		if !c.have[i] && e.Stat.Size > maxBaseText {
			c.long = append(c.long, e.Path)
		}
	}
	if len(c.long) == 0 {
		return nil
	}
	var b strings.Builder
	for _, path := range c.long {
		b.WriteString(git.QuotePath("/"+git.EscapeWildcards(path)) + " -diff\n")
	}
	return os.WriteFile(filepath.Join(repo.Dir, "info", "attributes"), []byte(b.String()), 0o600)
}

func (c *capture) writeLink(w io.Writer, at *folder.Cursor, f found) error {
	dir, name, err := at.Parent(f.path)
	var target string
	if err == nil {
		target, err = dir.Readlink(name)
	}
	if err != nil {
		c.omit(f.path, warnUnreadable, err.Error())
		return nil
	}
	if inside := path.Join(path.Dir(f.path), target); path.IsAbs(target) || inside == ".." ||
		strings.HasPrefix(inside, "../") {
		c.warn(warnOutsideLink, f.path, fmt.Sprintf("the link leads out of the tree, to %.200q", target))
	}
	_, err = fmt.Fprintf(w, "M %o inline %s\ndata %d\n%s\n", f.mode, git.QuotePath(f.path), len(target), target)
	return err
}

// importSource brings the copy of a plain directory up to date and returns its
// tree. Only files whose stat data changed since the last time are read.
func (t *Tree) importSource(ctx context.Context) (string, error) {
	root, err := folder.Open(t.info.Path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	limits := t.source.options.Limits
	known := readRecord(t.slot.source(), t.source.format)
	if !known.header.Complete {
		known.header.Tree = t.source.format.EmptyTree()
	}
	started := time.Now().UnixNano()
	c, err := compareTree(ctx, root, known,
		Limits{FileBytes: limits.SnapshotBytes, DiffBytes: limits.SnapshotBytes, Files: limits.Files}, nil, nil)
	if err != nil {
		return "", err
	}
	fresh, err := c.expand(ctx, c.files, c.dirs, nil)
	if err != nil {
		return "", err
	}
	files := c.admit(append(c.changed, fresh...))
	tree, err := c.importChanges(ctx, t.base, known.header.Tree, nil, c.deleted(), files)
	if err != nil {
		return "", err
	}
	for _, w := range c.warnings.list() {
		switch w.Code {
		case warnFileTooLarge, warnDiffTooLarge, warnTooManyFiles:
			return "", &git.Error{Code: git.CodeTooLarge, Param: w.Path,
				Message: "the directory " + t.info.Path + " is too large to copy: " + w.Message,
				Hint: "name a smaller directory, or make it a git repository and list what is not " +
					"needed in .gitignore"}
		}
		t.info.Warnings = append(t.info.Warnings, w)
	}
	if tree == known.header.Tree && known.header.Complete && c.hashed.Load() == 0 {
		return tree, nil
	}
	return tree, t.rememberSource(ctx, root, tree, started)
}

// rememberSource writes the record of a plain directory as of started: a file that changed since then is
// compared by content the next time.
func (t *Tree) rememberSource(ctx context.Context, root folder.Dir, tree string, started int64) error {
	listed, err := t.listTree(ctx, tree, "")
	if err != nil {
		return fmt.Errorf("list copy: %w", err)
	}
	at := folder.NewCursor(root, false)
	defer at.Close()
	for i := range listed {
		dir, name, err := at.Parent(listed[i].Path)
		if err != nil {
			continue // removed since; without stat data it counts as changed
		}
		if st, err := dir.Lstat(name); err == nil {
			listed[i].Stat = folder.StatOf(&st)
		}
	}
	r := &record{format: t.source.format, entries: listed,
		header: recordHeader{Stamp: started, Tree: tree, Complete: true}}
	_, err = r.write(t.slot.source())
	return err
}
