package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"holon/internal/roots"
	"holon/runner/engine"
)

// agentHomePath is where an agent that lives finds its home, and works when it
// was given no tree. privateName is what of it is the host's: the container sees
// an empty directory there, and can neither change nor replace it.
const (
	agentHomePath = WorkspacesPath + "/" + homeName
	homeName      = "agent_home"
	privateName   = ".holon"
)

// openAgentHome makes sure that the host can enter the agent's home, which its
// owner may have closed, and that there is something to cover what is the host's
// own with.
func (s *Session) openAgentHome() error {
	if s.cfg.AgentHome == "" {
		return nil
	}
	info, err := os.Lstat(s.cfg.AgentHome)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err == nil {
		err = os.Chmod(s.cfg.AgentHome, 0o700)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(s.cfg.AgentHome, privateName), 0o700)
	}
	if err == nil {
		err = os.MkdirAll(s.coverDir(), 0o755)
	}
	for _, dir := range s.agentDirs() {
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil {
			err = os.Chmod(dir, 0o755) // despite the umask
		}
	}
	if err != nil {
		return fmt.Errorf("open the agent's home: %w", err)
	}
	return nil
}

// agentDirs are those that the host makes for AgentDirs, with the place of the home's mount.
func (s *Session) agentDirs() []string {
	if s.cfg.Workspaces == "" {
		return nil
	}
	return []string{s.cfg.Workspaces, filepath.Join(s.cfg.Workspaces, homeName), s.cfg.Objects, s.cfg.Anchors}
}

func (s *Session) coverDir() string { return filepath.Join(s.cfg.Dir, "empty") }

// agentMounts are the directories of an agent that lives, those of its workspaces before its home, which lies in them.
func (s *Session) agentMounts() (mounts []engine.Mount) {
	if s.cfg.AgentHome == "" {
		return nil
	}
	if s.cfg.Workspaces != "" {
		mounts = []engine.Mount{
			{Source: s.cfg.Workspaces, Target: WorkspacesPath},
			{Source: s.cfg.Objects, Target: ObjectsPath, ReadOnly: true, Updated: s.streams},
			{Source: s.cfg.Anchors, Target: anchorsPath, ReadOnly: true, Updated: s.streams},
		}
	}
	return append(mounts,
		engine.Mount{Source: s.cfg.AgentHome, Target: agentHomePath},
		engine.Mount{Source: s.coverDir(), Target: agentHomePath + "/" + privateName, ReadOnly: true})
}

// giveTrees gives a user of the container the trees that it did not have from a container before.
func (s *Session) giveTrees(ctx context.Context, user engine.User) error {
	if s.cfg.Workspaces == "" {
		return nil
	}
	trees, err := os.ReadDir(s.cfg.Workspaces)
	if err != nil {
		return fmt.Errorf("give the container's user its trees: %w", err)
	}
	for _, tree := range trees {
		if tree.Name() == homeName || !tree.IsDir() {
			continue
		}
		if err := s.giveTree(ctx, filepath.Join(s.cfg.Workspaces, tree.Name()), "", user); err != nil {
			return err
		}
	}
	return nil
}

// giveTree gives a user of the container a directory with all that is in it, unless
// it is theirs: no container runs that could change it meanwhile. The top comes
// last, so that a crash leaves a directory that is given once more. What lies in the directory except stays the host's
// own.
func (s *Session) giveTree(ctx context.Context, dir, except string, user engine.User) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("give the container's user its files: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == user.UID && int(st.Gid) == user.GID {
		return nil
	}
	root, err := roots.Open(dir)
	if err != nil {
		return fmt.Errorf("give the container's user its files: %w", err)
	}
	defer root.Close()
	err = roots.Walk(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case path == except && d.IsDir():
			return fs.SkipDir
		case path == ".":
			return nil
		}
		return root.Lchown(path, user.UID, user.GID)
	})
	if err != nil {
		return fmt.Errorf("give the container's user its files: %w", err)
	}
	if err := os.Lchown(dir, user.UID, user.GID); err != nil {
		return fmt.Errorf("give the container's user its files: %w", err)
	}
	return nil
}
