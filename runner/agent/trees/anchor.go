package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"holon/internal/folder"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
)

// Bounds of what is taken of the guidance of a workspace.
const (
	maxGuidance   = 64 << 10 // of a file of instructions, of which agentd cuts what is too long
	maxSkillFile  = 1 << 20
	maxSkillBytes = 16 << 20
	maxSkillFiles = 1000
	maxSkillDepth = 8
)

// guidance are the files of instructions, the first that is there.
var guidance = []string{"AGENTS.md", "CLAUDE.md"}

// skillFolders are those that agentd looks for in a workspace, the first that is there.
var skillFolders = []string{".agents/skills", ".codex/skills", ".claude/skills"}

func (t *Trees) anchorDir(agentID, workspaceID string) string {
	return t.private(agentID, "anchors", workspaceID)
}

// newAnchor begins the name of an anchor that is being written.
const newAnchor = ".new-"

// writeAnchor keeps the guidance of a workspace as the base of a tree has it: what the agent changes of it counts when
// it was applied.
func (t *Trees) writeAnchor(ctx context.Context, agentID, workspaceID string, tree *workspace.Tree) error {
	dir := t.anchorDir(agentID, workspaceID)
	next := filepath.Join(filepath.Dir(dir), newAnchor+workspaceID)
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(next, 0o755)); err != nil {
		return fmt.Errorf("keep the guidance of the workspace: %w", err)
	}
	defer os.RemoveAll(next)
	c := anchorCopy{tree: tree, dir: next}
	for _, name := range guidance {
		if done, err := c.file(ctx, name, maxGuidance); done || err != nil {
			if err != nil {
				return err
			}
			break
		}
	}
	for _, name := range skillFolders {
		done, err := c.folder(ctx, name, 0)
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	if err := errors.Join(os.Chmod(next, 0o755), replaceDir(next, dir)); err != nil {
		return fmt.Errorf("keep the guidance of the workspace: %w", err)
	}
	return nil
}

// replaceDir gives a directory the place of another one, which is there at every moment where the file system can
// exchange two; where it cannot, haveAnchor makes up for a process that is killed.
func replaceDir(next, dir string) error {
	if folder.Swap(next, dir) == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(next, dir))
}

// haveAnchor writes the guidance of the workspace of a tree anew where it is gone: no turn begins without it.
func (t *Trees) haveAnchor(ctx context.Context, agentID, name string) error {
	tree, w, err := t.found(ctx, agentID, name)
	if err != nil {
		return err
	}
	dir := t.anchorDir(agentID, w.ID)
	if info, err := os.Lstat(dir); err == nil && info.IsDir() {
		return nil
	}
	t.opts.Log.Warn("the guidance of a workspace is gone and is taken from its base", "agent", agentID, "dir", dir)
	return t.one(ctx, target{w, tree}, func(ctx context.Context, o *opened) error {
		return t.writeAnchor(ctx, agentID, w.ID, o.Tree)
	})
}

// anchorCopy copies files of the base of a tree into a directory of the host's.
type anchorCopy struct {
	tree  *workspace.Tree
	dir   string
	files int
	bytes int
}

// file copies a file; done is false when there is none. One that is too large is left out.
func (c *anchorCopy) file(ctx context.Context, name string, most int64) (done bool, err error) {
	data, err := c.tree.BaseFile(ctx, name, most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case isTooLarge(err):
		data = fmt.Appendf(nil, "(%s has more than %d bytes and is left out)\n", path.Base(name), most)
	case err != nil:
		return false, err
	}
	to := filepath.Join(c.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return false, fmt.Errorf("keep %s: %w", name, err)
	}
	c.files, c.bytes = c.files+1, c.bytes+len(data)
	if err := os.WriteFile(to, data, 0o644); err != nil {
		return false, fmt.Errorf("keep %s: %w", name, err)
	}
	return true, os.Chmod(to, 0o644) // despite the umask
}

func isTooLarge(err error) bool {
	e, ok := errors.AsType[*git.Error](err)
	return ok && e.Code == git.CodeTooLarge
}

// folder copies a folder, within bounds; done is false when there is none.
func (c *anchorCopy) folder(ctx context.Context, name string, depth int) (done bool, err error) {
	names, err := c.tree.BaseDir(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, inner := range names {
		if err != nil || c.files >= maxSkillFiles || c.bytes >= maxSkillBytes {
			return true, err
		}
		inner = path.Join(name, inner)
		var isFile bool
		if isFile, err = c.file(ctx, inner, maxSkillFile); err == nil && !isFile && depth < maxSkillDepth {
			_, err = c.folder(ctx, inner, depth+1)
		}
	}
	return true, err
}

// Guidance is the name of the file of instructions that an agent has of a workspace, "" for none.
func (t *Trees) Guidance(agentID, workspaceID string) string {
	for _, name := range guidance {
		if info, err := os.Lstat(filepath.Join(t.anchorDir(agentID, workspaceID), name)); err == nil &&
			info.Mode().IsRegular() && info.Size() > 0 {
			return name
		}
	}
	return ""
}

// guidanceText is the text of that file, at most of a size; "" for none.
func (t *Trees) guidanceText(agentID, workspaceID string, most int) (name, text string) {
	if name = t.Guidance(agentID, workspaceID); name == "" {
		return "", ""
	}
	data, err := os.ReadFile(filepath.Join(t.anchorDir(agentID, workspaceID), name))
	if err != nil {
		return "", ""
	}
	if len(data) > most {
		data = append(data[:most], "\n(cut)"...)
	}
	return name, strings.ToValidUTF8(string(data), "\uFFFD")
}
