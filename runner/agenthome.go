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
	agentHomePath = workspacePath + "/agent_home"
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
	if err != nil {
		return fmt.Errorf("open the agent's home: %w", err)
	}
	return nil
}

func (s *Session) coverDir() string { return filepath.Join(s.cfg.Dir, "empty") }

func (s *Session) agentHomeMounts() []engine.Mount {
	if s.cfg.AgentHome == "" {
		return nil
	}
	return []engine.Mount{
		{Source: s.cfg.AgentHome, Target: agentHomePath},
		{Source: s.coverDir(), Target: agentHomePath + "/" + privateName, ReadOnly: true},
	}
}

// giveTree gives a user of the container a directory with all that is in it, unless
// it is theirs: no container runs that could change it meanwhile. The top comes
// last, so that a crash leaves a directory that is given once more. What is the
// host's own in an agent's home stays so.
func (s *Session) giveTree(ctx context.Context, dir string, user engine.User) error {
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
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case path == privateName && d.IsDir():
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
