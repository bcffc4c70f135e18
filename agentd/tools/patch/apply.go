package patch

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"holon/agentd/tools"
)

// apply applies a patch to the tree at dir: all of it or nothing.
func apply(ctx context.Context, dir, text string) (result, *tools.Error) {
	doc, bad := parse(text)
	if bad != nil {
		return result{}, bad
	}
	t, bad := openTree(ctx, dir)
	if bad != nil {
		return result{}, bad
	}
	defer t.close()
	return t.apply(ctx, doc)
}

func (t *tree) apply(ctx context.Context, doc document) (result, *tools.Error) {
	s := stage{tree: t, doc: doc, explanations: maxExplained}
	for i := range doc.files {
		if ctx.Err() != nil {
			return result{}, canceled()
		}
		if bad := s.file(&doc.files[i]); bad != nil {
			s.failures = append(s.failures, bad)
		}
	}
	if len(s.failures) > 0 {
		return result{}, s.failure()
	}
	changed := s.changed()
	if len(changed) == 0 {
		e := &tools.Error{Kind: kindNoChange, Message: "the patch leaves every file as it is",
			RecoveryHint: "the change may have been made before; look at the files"}
		if len(s.doc.diags) > 0 {
			e.Details = map[string]any{"diagnostics": s.doc.diags}
		}
		return result{}, e
	}
	if bad := t.commit(ctx); bad != nil {
		return result{}, bad
	}
	return s.result(changed), nil
}

// stage applies file patches to a tree in memory.
type stage struct {
	tree     *tree
	doc      document
	changes  []changedFile
	failures []*tools.Error

	work         int // lines of files that hunks are compared with
	explanations int // hunks that may still be answered with lines of the file
}

func (s *stage) file(f *filePatch) *tools.Error {
	path, bad := s.pick(f)
	if bad != nil {
		return bad
	}
	switch f.action {
	case actionAdd:
		return s.add(f, path)
	case actionDelete:
		return s.remove(f, path)
	case actionMove, actionCopy:
		return s.move(f, path)
	}
	return s.modify(f, path)
}

// pick decides whether a leading a/ or b/ is git's prefix or a directory.
func (s *stage) pick(f *filePatch) (string, *tools.Error) {
	path, bad := s.tree.clean(f.path)
	existing := f.action == actionModify || f.action == actionDelete
	if bad != nil || f.rawPath == "" || f.rawPath == f.path || !existing {
		return path, bad
	}
	if e, err := s.tree.entry(path); err != nil || e.exists {
		return path, nil // the caller meets the error again
	}
	if raw, bad := s.tree.clean(f.rawPath); bad == nil {
		if e, bad := s.tree.entry(raw); bad == nil && e.exists {
			return raw, nil
		}
	}
	return path, nil
}

func (s *stage) add(f *filePatch, path string) *tools.Error {
	e, bad := s.tree.entry(path)
	if bad != nil {
		return bad
	}
	data, bad := content(f)
	if bad != nil {
		return bad
	}
	if e.exists && e.before != nil && e.before.Size == int64(len(data)) && s.tree.load(e) == nil && e.data == data {
		return f.refused(kindApplied, path, path+" exists already, with the same content",
			"the change seems to be made already; leave this file out; nothing was changed")
	}
	if e.exists {
		return f.refused(kindExists, path, path+" exists already", "to change it, name it in both header lines "+
			"(--- a/PATH, +++ b/PATH) and give context; to replace it, delete it first")
	}
	e.put(data, 0o644)
	e.setMode(f.newMode)
	s.record(changedFile{Action: actionAdd, Path: path})
	return s.tree.charge(len(data))
}

// content returns the content of a new file.
func content(f *filePatch) (string, *tools.Error) {
	var b strings.Builder
	for _, h := range f.hunks {
		lines := h.content()
		for i, l := range lines {
			if l.op != '+' && strings.TrimSpace(l.text) != "" {
				return "", syntax(h.line+i+1, f.path+": this line of a new file does not start with +",
					"start every line of a new file with +")
			}
			b.WriteString(l.text)
			if !l.noEOL || i < len(lines)-1 {
				b.WriteByte('\n')
			}
		}
	}
	return b.String(), nil
}

func (s *stage) remove(f *filePatch, path string) *tools.Error {
	e, bad := s.existing(f, path)
	if bad != nil {
		return bad
	}
	if len(f.hunks) > 0 {
		rest, bad := s.rewrite(f, path, e)
		if bad != nil {
			return bad
		}
		if rest != "" {
			return f.refused(kindMismatch, path, fmt.Sprintf("%s: the patch deletes the file but removes only part of "+
				"it; %d bytes would be left", path, len(rest)), "leave out the hunks to delete the file as it is, "+
				"with the header lines alone, or with *** Delete File: PATH")
		}
	}
	e.exists, e.data = false, ""
	s.record(changedFile{Action: actionDelete, Path: path})
	return nil
}

func (s *stage) modify(f *filePatch, path string) *tools.Error {
	if e, bad := s.tree.entry(path); bad == nil && !e.exists && f.createsByHunk() {
		s.doc.note(path, "created", "the file did not exist; its only hunk starts at nothing, so it was created")
		return s.add(f, path)
	}
	e, bad := s.existing(f, path)
	if bad != nil {
		return bad
	}
	if bad := s.tree.load(e); bad != nil {
		return bad
	}
	if len(f.hunks) > 0 {
		data, bad := s.rewrite(f, path, e)
		if bad != nil {
			return bad
		}
		e.put(data, e.mode)
	}
	e.setMode(f.newMode)
	s.record(changedFile{Action: actionModify, Path: path})
	return nil
}

// createsByHunk reports a change whose only hunk starts at nothing.
func (f *filePatch) createsByHunk() bool {
	return len(f.hunks) == 1 && f.hunks[0].insertAt && f.hunks[0].start == 0 &&
		len(side(f.hunks[0].lines, '+')) == f.hunks[0].blanks
}

func (s *stage) move(f *filePatch, path string) *tools.Error {
	from, bad := s.tree.clean(f.from)
	if bad != nil {
		return bad
	}
	src, bad := s.existing(f, from)
	if bad != nil {
		return bad
	}
	if bad := s.tree.load(src); bad != nil {
		return bad
	}
	data := src.data
	if len(f.hunks) > 0 {
		if data, bad = s.rewrite(f, from, src); bad != nil {
			return bad
		}
	}
	mode := src.mode
	if f.action == actionMove {
		src.exists, src.data = false, ""
	}
	dst, bad := s.tree.entry(path)
	if bad == nil && dst.exists {
		bad = f.refused(kindExists, path, path+" exists already, so "+from+" cannot get its name",
			"delete the file in the way in the same patch, above this part, or choose another name")
	}
	if bad != nil {
		return bad
	}
	dst.put(data, mode)
	dst.given = true
	dst.setMode(f.newMode)
	change := changedFile{Action: actionMove, Path: path, FromPath: from}
	if f.action == actionCopy {
		change.Action = actionAdd
	}
	s.record(change)
	return s.tree.charge(len(data))
}

func (s *stage) existing(f *filePatch, path string) (*entry, *tools.Error) {
	e, bad := s.tree.entry(path)
	if bad != nil {
		return nil, bad
	}
	if !e.exists {
		return nil, f.refused(kindMissing, path, path+" does not exist", "look up the path, for example with: rg "+
			"--files; to create a file, write --- /dev/null above +++ b/PATH")
	}
	return e, nil
}

// rewrite returns e's content with the hunks of f applied.
func (s *stage) rewrite(f *filePatch, path string, e *entry) (string, *tools.Error) {
	if bad := s.tree.load(e); bad != nil {
		return "", bad
	}
	if strings.ContainsRune(e.data, 0) {
		return "", refused(kindBinary, path, path+" is a binary file", "change binary files with a command")
	}
	text := newFileText(e.data)
	if len(text.lines) > maxLines {
		return "", refused(kindTooLarge, path, fmt.Sprintf("%s has %d lines; the limit is %d", path, len(text.lines),
			maxLines), "change it with a command such as sed")
	}
	for _, h := range f.hunks {
		s.work += len(text.lines) * (1 + len(h.anchors))
	}
	if s.work > maxWork {
		return "", tooLarge("the hunks times the lines of their files are more than %[2]d (%[1]d)", s.work, maxWork)
	}
	list, notes, failed := text.place(f.hunks, &s.explanations)
	if len(failed) > 0 {
		return "", mismatched(path, failed)
	}
	for _, d := range notes {
		s.doc.note(path, d.Kind, d.Message)
	}
	data := text.build(list)
	return data, s.tree.charge(len(data))
}

// record adds a change and merges it with earlier changes of the same path.
func (s *stage) record(c changedFile) {
	if c.Action == actionMove {
		// Earlier changes of the source are part of the move.
		if i := slices.IndexFunc(s.changes, func(o changedFile) bool { return o.Path == c.FromPath }); i >= 0 {
			switch source := s.changes[i]; source.Action {
			case actionAdd:
				c.Action, c.FromPath = actionAdd, ""
			case actionMove:
				c.FromPath = source.FromPath
			}
			s.changes = slices.Delete(s.changes, i, i+1)
		}
	}
	i := slices.IndexFunc(s.changes, func(o changedFile) bool { return o.Path == c.Path })
	switch {
	case i < 0:
		s.changes = append(s.changes, c)
	case s.changes[i].Action == actionDelete && c.Action == actionAdd && c.FromPath == "":
		s.changes[i].Action = actionModify
	case c.Action != actionModify:
		s.changes[i] = c
	}
}

// changed returns the changes that make a difference.
func (s *stage) changed() []changedFile {
	return slices.DeleteFunc(slices.Clone(s.changes), func(c changedFile) bool {
		e := s.tree.entries[c.Path]
		if e.differs() {
			return false
		}
		if c.Action == actionModify {
			s.doc.note(c.Path, "no_change", "the file stays as it is")
		}
		return true
	})
}

func (s *stage) result(changed []changedFile) result {
	r := result{
		ChangedFiles: changed, ChangedPaths: make([]string, 0, len(changed)), ChangedFileCount: len(changed),
		IgnoredMetadata: append([]metadata{}, s.doc.ignored...), Diagnostics: append([]diagnostic{}, s.doc.diags...),
	}
	for _, c := range changed {
		r.ChangedPaths = append(r.ChangedPaths, c.Path)
	}
	r.SummaryText = fmt.Sprintf("patch applied: %d files changed", len(changed))
	if len(changed) == 1 {
		r.SummaryText = "patch applied: 1 file changed"
	}
	return r
}

// put stages content for e. An existing file keeps its mode.
func (e *entry) put(data string, mode fs.FileMode) {
	if !e.exists && e.before == nil {
		e.mode = mode
	}
	e.exists, e.loaded, e.data = true, true, data
}

// setMode applies git's two modes: executable or not.
func (e *entry) setMode(git string) {
	switch git {
	case "100755":
		e.mode |= e.mode & 0o444 >> 2
	case "100644":
		e.mode &^= 0o111
	}
}
