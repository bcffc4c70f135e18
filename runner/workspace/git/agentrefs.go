package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"holon/internal/folder"
	"holon/internal/pattern"

	"golang.org/x/sys/unix"
)

// Bounds on what leads to commits in a repository that a container could write.
const (
	maxAgentRefs      = 5000     // files of references, and of logs
	maxAgentLogs      = 16 << 20 // bytes of all logs
	maxAgentWorktrees = 100      // linked ones
)

// AgentTips are what leads to commits in a repository that a container could write.
type AgentTips struct {
	References map[string]string // by name, which is not checked; symbolic ones are left out, since they lead to others
	Stashes    []string          // the newest first
	Linked     []string          // HEADs and references of linked working trees
	Head       []string          // what HEAD was at, the newest first
	Others     []string          // what other references were at, and what commands left, such as ORIG_HEAD
	logs       int64             // bytes
	files      int               // logs
}

// ReadAgentTips reads references, files such as HEAD, and their logs, of the repository and of its linked working
// trees.
// What can't be read is an error that names it; the rest is returned all the same. Links are not followed.
func ReadAgentTips(ctx context.Context, gitDir folder.Dir) (tips AgentTips, err error) {
	tips.References, err = agentReferences(ctx, gitDir)
	for _, name := range []string{"reftable", "modules"} {
		if _, statErr := gitDir.Lstat(name); statErr == nil {
			err = errors.Join(err, fmt.Errorf("its %s can't be read", name))
		}
	}
	stashes, stashErr := tips.log(gitDir, "logs/refs/stash")
	if newest := tips.References["refs/stash"]; newest != "" && (len(stashes) == 0 || stashes[0] != newest) {
		stashes = slices.Insert(stashes, 0, newest)
	}
	head, headErr := tips.log(gitDir, "logs/HEAD")
	tips.Stashes, tips.Head = stashes, head
	err = errors.Join(err, stashErr, headErr, tips.others(ctx, gitDir))
	return tips, errors.Join(err, tips.linked(ctx, gitDir))
}

// agentReferences returns all references by their names.
func agentReferences(ctx context.Context, gitDir folder.Dir) (map[string]string, error) {
	found, err := references(ctx, gitDir, maxAgentRefs, func(name string) bool {
		return !strings.HasSuffix(name,
			".lock")
	})
	if err != nil {
		return nil, fmt.Errorf("its references can't be read: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if ObjectID().MatchString(found[name]) {
			continue
		}
		if _, symErr := symbolic(found[name]); symErr != nil && err == nil {
			err = fmt.Errorf("its reference %.200q can't be read", name)
		}
		delete(found, name)
	}
	return found, err
}

// linked reads what belongs to linked working trees alone.
func (t *AgentTips) linked(ctx context.Context, gitDir folder.Dir) (err error) {
	dir, err := gitDir.Sub("worktrees")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var names []string
	if err == nil {
		defer dir.Close()
		names, err = dir.Names()
	}
	if err == nil && len(names) > maxAgentWorktrees {
		err = fmt.Errorf("there are more than %d", maxAgentWorktrees)
	}
	for _, name := range names[:min(len(names), maxAgentWorktrees)] {
		err = errors.Join(err, t.worktree(ctx, dir, name))
	}
	if err != nil {
		return fmt.Errorf("its linked working trees can't be read: %w", err)
	}
	return nil
}

func (t *AgentTips) worktree(ctx context.Context, dir folder.Dir, name string) error {
	own, err := dir.Sub(name)
	if err != nil {
		return err
	}
	defer own.Close()
	commit, _, err := head(own)
	refs, refsErr := agentReferences(ctx, own)
	if errors.Is(refsErr, fs.ErrNotExist) {
		refsErr = nil
	}
	t.Linked = slices.AppendSeq(append(t.Linked, commit), maps.Values(refs))
	return errors.Join(err, refsErr, t.others(ctx, own))
}

// others reads all logs, and the files of commands.
func (t *AgentTips) others(ctx context.Context, gitDir folder.Dir) error {
	names, err := gitDir.Names()
	if err != nil {
		return err
	}
	for _, name := range append(names, "rebase-merge/autostash", "rebase-apply/autostash") {
		if strings.HasSuffix(name, "/autostash") || pseudoReference().MatchString(name) {
			lines, readErr := t.lines(gitDir, name)
			err = errors.Join(err, readErr)
			t.Others = append(t.Others, ids(lines, 0)...)
		}
	}
	logs, subErr := gitDir.Sub("logs")
	if errors.Is(subErr, fs.ErrNotExist) {
		return err
	}
	if subErr == nil {
		defer logs.Close()
		subErr = t.walkLogs(ctx, logs, "")
	}
	return errors.Join(err, subErr)
}

func (t *AgentTips) walkLogs(ctx context.Context, dir folder.Dir, path string) error {
	names, err := dir.Names()
	if err == nil && strings.Count(path, "/") > folder.MaxDepth {
		err = errors.New("its logs are nested too deeply")
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		full := folder.Join(path, name)
		st, statErr := dir.Lstat(name)
		switch t.files++; {
		case t.files > maxAgentRefs:
			return fmt.Errorf("there are more than %d logs of references", maxAgentRefs)
		case ctx.Err() != nil:
			return ctx.Err()
		case statErr == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
			sub, subErr := dir.Sub(name)
			if subErr == nil {
				subErr = t.walkLogs(ctx, sub, full)
				sub.Close()
			}
			err = errors.Join(err, subErr)
		default:
			ids, logErr := t.log(dir, name)
			t.Others, err = append(t.Others, ids...), errors.Join(err, logErr)
		}
	}
	return err
}

// log returns what a reference was, the newest first, by its log, with lines "OLD NEW user and action".
func (t *AgentTips) log(dir folder.Dir, name string) ([]string, error) {
	lines, err := t.lines(dir, name)
	found := ids(lines, 1)
	slices.Reverse(found)
	return found, err
}

// lines reads a regular file; one that is not there is empty.
func (t *AgentTips) lines(from folder.Dir, name string) ([]byte, error) {
	at := folder.NewCursor(from, false)
	defer at.Close()
	dir, base, err := at.Parent(name)
	if err == nil {
		file, st, openErr := dir.OpenFile(base)
		if err = openErr; err == nil {
			defer file.Close()
			if t.logs += st.Size; t.logs > maxAgentLogs {
				return nil, fmt.Errorf("its logs of references have more than %d bytes", maxAgentLogs)
			}
			return io.ReadAll(io.LimitReader(file, st.Size))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, fmt.Errorf("its file %.200q can't be read: %w", name, err)
}

// ids returns the objects that lines have in a field.
func ids(text []byte, at int) (list []string) {
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) > at && ObjectID().Match(fields[at]) {
			list = append(list, string(fields[at]))
		}
	}
	return list
}

// pseudoReference are the names of files that git's commands leave with commits.
var pseudoReference = pattern.Lazy(`^[A-Z_]*HEAD$|^[A-Z_]*AUTOSTASH$`)
