package patch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"holon/agentd/tools"
	"holon/internal/folder"
)

// apply applies a patch to the tree at dir: all of it or nothing. The whole patch is checked in memory against the
// files before the first of them is written.
func apply(ctx context.Context, dir, text string) (result, *tools.Error) {
	doc, bad := parse(text)
	if bad != nil {
		return result{}, bad
	}
	root, err := folder.Open(dir)
	if err != nil {
		return result{}, &tools.Error{Kind: kindWrite, Message: "the working tree cannot be opened: " + err.Error(),
			RecoveryHint: "report this to the operator"}
	}
	defer root.Close()
	return newTree(dir, root).apply(ctx, doc)
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
		return result{}, joined(s.failures)
	}
	changed := t.changes()
	if len(changed) == 0 {
		return result{}, &tools.Error{Kind: kindNoChange, Message: "the patch leaves every file as it is",
			RecoveryHint: "the change may have been made before; look at the files"}
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
	failures []*tools.Error

	work         int // lines of files that hunks are compared with
	explanations int // hunks that may still be answered with lines of the file
}

func (s *stage) file(f *filePatch) *tools.Error {
	path, bad := s.tree.clean(f.path)
	if bad != nil {
		return bad
	}
	switch f.action {
	case actionAdd:
		return s.add(f, path)
	case actionMove:
		return s.move(f, path)
	}
	e, bad := s.existing(f, path)
	if bad != nil {
		return bad
	}
	data, bad := s.rewrite(f, e)
	if bad != nil {
		return bad
	}
	e.data = data
	if f.action == actionModify {
		return nil
	}
	if len(f.hunks) > 0 && data != "" {
		return f.refused(kindMismatch, path, fmt.Sprintf("%s: the patch deletes the file but removes only part of it; "+
			"%d bytes would be left", path, len(data)), "leave out the hunks to delete the file as it is, with the header "+
			"lines alone, or with *** Delete File: PATH")
	}
	e.exists, e.data = false, ""
	return nil
}

func (s *stage) add(f *filePatch, path string) *tools.Error {
	e, bad := s.tree.entry(path)
	if bad != nil {
		return bad
	}
	data, bad := f.content()
	if bad != nil {
		return bad
	}
	if e.exists {
		return f.refused(kindExists, path, path+" exists already", "to change it, name it in both header lines "+
			"(--- a/PATH, +++ b/PATH) and give context; to replace it, delete it first")
	}
	e.exists, e.data = true, data
	return s.tree.charge(len(data))
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
	data, bad := s.rewrite(f, src)
	if bad != nil {
		return bad
	}
	source := src.from
	if source == "" && src.before != nil {
		source = from
	}
	src.exists, src.data, src.from = false, "", ""
	dst, bad := s.tree.entry(path)
	if bad == nil && dst.exists {
		bad = f.refused(kindExists, path, path+" exists already, so "+from+" cannot get its name",
			"delete the file in the way in the same patch, above this part, or choose another name")
	}
	if bad != nil {
		return bad
	}
	dst.exists, dst.data, dst.mode, dst.from = true, data, src.mode, source
	return s.tree.charge(len(data))
}

// existing returns the entry of a file that exists, with its content.
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
func (s *stage) rewrite(f *filePatch, e *entry) (string, *tools.Error) {
	if len(f.hunks) == 0 {
		return e.data, nil
	}
	if strings.ContainsRune(e.data, 0) {
		return "", refused(kindBinary, e.path, e.path+" is a binary file", "change binary files with a command")
	}
	text := newFileText(e.data)
	if len(text.raw) > maxLines {
		return "", refused(kindTooLarge, e.path, fmt.Sprintf("%s has %d lines; the limit is %d", e.path, len(text.raw),
			maxLines), "change it with a command such as sed")
	}
	for _, h := range f.hunks {
		s.work += len(text.raw) * (1 + len(h.anchors))
	}
	if s.work > maxWork {
		return "", tooLarge("the hunks times the lines of their files are more than %[2]d (%[1]d)", s.work, maxWork)
	}
	list, notes, failed := text.place(f.hunks, &s.explanations)
	if len(failed) > 0 {
		return "", mismatched(e.path, failed)
	}
	for _, d := range notes {
		s.doc.note(e.path, d.Kind, d.Message)
	}
	data := text.build(list)
	return data, s.tree.charge(len(data))
}

func (s *stage) result(changed []changedFile) result {
	r := result{
		ChangedFiles: changed, ChangedPaths: make([]string, 0, len(changed)), ChangedFileCount: len(changed),
		IgnoredMetadata: slices.Concat([]metadata{}, s.doc.ignored),
		Diagnostics:     slices.Concat([]diagnostic{}, s.doc.diags),
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
