package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// moved is what a slot durably says of a tree whose base moved since it was acquired, and of a change of its files that
// is under way. It outlives the process that moved the base, so that a Held of before resumes the tree as it is now.
type moved struct {
	Claim  string  `json:"claim"` // of the tree that it is about
	Info   Info    `json:"info"`
	Theirs string  `json:"theirs"` // Tree.theirs
	Change *change `json:"change,omitempty"`
	Note   string  `json:"note,omitempty"` // Restore.Note of the newest one
}

// saveMoved makes the tree's base, and the change under way, durable. What they need is there already.
func (t *Tree) saveMoved() error {
	data, err := json.Marshal(moved{Claim: t.source.options.Claim, Info: t.info, Theirs: t.theirs, Change: t.change,
		Note: t.note})
	if err == nil {
		err = durable.WriteFile(t.slot.base(), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the base: %w", err)
	}
	return nil
}

// readMoved returns what saveMoved wrote last, or what held says of a tree whose base never moved.
func (s *slot) readMoved(held Held) (last moved, err error) {
	data, err := os.ReadFile(s.base())
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return last, fmt.Errorf("read the base: %w", err)
	}
	if err != nil || last.Claim != held.Claim {
		last = moved{Info: held.Info, Theirs: held.Info.BaseTree}
	}
	return last, nil
}

// Advance makes the present state of the tree its base, after its change was applied to the user's files: Diff is empty
// then. No file of the tree is written.
func (t *Tree) Advance(ctx context.Context) error {
	return git.WithCode("advance the base", t.withRoot(ctx, t.advance))
}

// withRoot calls do with the open tree, when a change of its files that was cut off is complete.
func (t *Tree) withRoot(ctx context.Context, do func(ctx context.Context, root folder.Dir) error) error {
	if t.slot.lock == nil {
		return &git.Error{Code: CodeReleased, Message: "the working tree was released"}
	}
	root, err := t.slot.openTree()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := t.finish(ctx, root, false); err != nil {
		return err
	}
	return do(ctx, root)
}

func (t *Tree) advance(ctx context.Context, root folder.Dir) error {
	if err := t.compact(ctx); err != nil {
		return err
	}
	started := time.Now().UnixNano()
	c, repo, tree, err := t.present(ctx, root)
	if err != nil {
		return err
	}
	if tree == t.info.BaseTree {
		return nil
	}
	if err := linkObjects(repo.Objects(), t.base.Objects()); err != nil {
		return fmt.Errorf("keep the objects of the base: %w", err)
	}
	next := *t
	next.info.BaseTree, next.info.IncludedDirty, next.start = tree, true, tree
	if t.source.options.IncludeDirty || t.info.Kind == KindCopy {
		next.theirs = tree // otherwise what was applied is the user's when it is committed
	}
	c.forget()
	if err := next.loadEntries(ctx, tree); err != nil {
		return err
	}
	if err := next.saveMoved(); err != nil {
		return err
	}
	*t = next
	return t.recordFiles(root, started, func(e *git.Entry) bool { return !e.Module && !anyAbove(c.omitted, e.Path) })
}

// compact packs the objects of the base anew once there are many packs of them: each move of the base adds one.
func (t *Tree) compact(ctx context.Context) error {
	dir := filepath.Join(t.base.Objects(), "pack")
	packs, err := filepath.Glob(filepath.Join(dir, "pack-*.idx"))
	if err != nil || len(packs) <= maxCopyPacks {
		return err
	}
	needed := t.info.BaseTree + "\n" + t.theirs + "\n"
	for _, tree := range t.bases {
		needed += tree + "\n"
	}
	marks, err := Marks(Held{Slot: t.slot.dir})
	for name := range marks {
		if tree, markErr := t.slot.marked(name); markErr == nil {
			needed += tree + "\n"
		} else {
			err = errors.Join(err, markErr)
		}
	}
	if err != nil {
		return fmt.Errorf("list the marks: %w", err)
	}
	if known := readRecord(t.slot.source(), t.source.format).header.Tree; known != "" { // of a plain directory
		needed += known + "\n"
	}
	out, err := t.base.Git().Run(ctx, strings.NewReader(needed), "pack-objects", "--revs", "--local", "--non-empty",
		"--quiet", "--window=0", filepath.Join(dir, "pack"))
	if err != nil {
		return fmt.Errorf("pack the objects of the base: %w", err)
	}
	id := "-" + strings.TrimSpace(string(out))
	for _, pack := range packs {
		if base := strings.TrimSuffix(pack, ".idx"); !strings.HasSuffix(base, id) && err == nil {
			err = errors.Join(os.Remove(pack), os.Remove(base+".pack"))
		}
	}
	return err
}

// forget drops the stat data of the entries that are not in the tree as they were recorded. A file that changed within
// the tick of the clock in which it was recorded may have the same, so that no later record may vouch for them.
func (c *capture) forget() {
	for i := range c.record.entries {
		if !c.have[i] {
			c.record.entries[i].Stat = folder.Stat{}
		}
	}
}

// recordFiles records the stat data of those files that have none and are the base's. All others were compared: the
// record is as of stamp.
func (t *Tree) recordFiles(root folder.Dir, stamp int64, based func(e *git.Entry) bool) error {
	at := folder.NewCursor(root, false)
	defer at.Close()
	for i := range t.record.entries {
		e := &t.record.entries[i]
		if e.Stat != (folder.Stat{}) || e.Mode == git.ModeSubmodule || !based(e) {
			continue
		}
		dir, name, err := at.Parent(e.Path)
		if err != nil {
			continue // without stat data it counts as changed
		}
		if st, err := dir.Lstat(name); err == nil {
			e.Stat = folder.StatOf(&st)
		}
	}
	t.record.header.Stamp, t.record.header.AtRest = stamp, false
	_, err := t.record.write(t.slot.record())
	return err
}
