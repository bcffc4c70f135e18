package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"holon/internal/folder"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/engine"
)

// defaultUID and defaultGID run in a container of root that has no pool
// of user ids: numbers that no account of the host has, so that files that come out of a container
// belong to no account. A real person's number would own that person's files.
const (
	defaultUID = 65532
	defaultGID = 65532
	serverUID  = 65533
	serverGID  = 65533
)

// accountName is what the container calls its user.
const accountName = "agent"

// RunsAs chooses the user of the container. Only root can give the container's
// files to another user; a container of another user runs as that user. nil where
// the engine has no files of its own: a program there is the caller's.
func RunsAs(asked *engine.User, e engine.Engine) (*engine.User, error) {
	self := engine.User{UID: os.Geteuid(), GID: os.Getegid()}
	switch {
	case asked != nil && *asked != self && (self.UID != 0 || !ownFiles(e)):
		return nil, &Error{Code: CodeUsage, Param: "--user",
			Message: fmt.Sprintf("%d:%d cannot run a container as %d:%d", self.UID, self.GID, asked.UID, asked.GID),
			Hint:    "leave it out, or run holon as root with an engine that confines"}
	case !ownFiles(e):
		return nil, nil
	case asked != nil:
		return asked, nil
	case self.UID == 0:
		return &engine.User{UID: defaultUID, GID: defaultGID}, nil
	}
	return &engine.User{UID: self.UID, GID: defaultGID}, nil // its group is agentd's
}

// chooseUsers chooses the users of the container. Those of a container of root get
// user ids that no other has, as long as its sockets are there.
func (s *Session) chooseUsers() error {
	asked := s.cfg.User
	user, err := RunsAs(asked, s.cfg.Engine)
	if err != nil || user == nil {
		s.cfg.User = user
		return err
	}
	server := engine.User{UID: serverUID, GID: os.Getegid()} // its group, and so the host, may use its files
	if os.Geteuid() == 0 {
		server.GID = serverGID
		name, dir := s.cfg.ID, s.cfg.AgentHome
		if s.cfg.Source != nil {
			name = s.cfg.Source.Info().Path // its cached trees
		}
		if s.cfg.Resume != nil {
			name, dir = s.cfg.Resume.Claim, s.tree.Dir()
		}
		take := func(of *engine.User, dir, name string) error {
			uid, err := s.cfg.UIDs.Take(dir, name, s.seam.sockets)
			*of = engine.User{UID: uid, GID: uid}
			return err
		}
		own := s.cfg.UIDs.Count > 0 && !s.streams // what shares no files needs no ids of its own
		if own {
			err = take(&server, filepath.Join(s.cfg.Dir, "state"), name+" agentd")
		}
		if err == nil && own && asked == nil {
			err = take(user, dir, name)
		}
	}
	if user.UID != 0 && user.GID != server.GID { // root could become any user
		s.server = &server
	}
	s.cfg.User = user
	return err
}

// owner is whose agentd's own files are.
func (s *Session) owner() *engine.User {
	if s.server != nil {
		return s.server
	}
	return s.cfg.User
}

// ownFiles reports whether a program of e has a file system of its own.
func ownFiles(e engine.Engine) bool {
	const inside = "/inside"
	return e.Path([]engine.Mount{{Source: "/outside", Target: inside}}, inside) == inside
}

// TreeOwner is to whom a tree below Config.Workspaces has to be given that is made while the session runs, nil where it
// is theirs from the start.
func (s *Session) TreeOwner() *folder.Owner { return treeOwner(s.cfg.User) }

// treeOwner is to whom a working tree has to be given, nil where it is theirs
// from the start.
func treeOwner(user *engine.User) *folder.Owner {
	if os.Geteuid() != 0 {
		return nil
	}
	if user == nil { // a container may have had the tree before: git refuses the files of another user
		return &folder.Owner{UID: 0, GID: os.Getegid()}
	}
	return &folder.Owner{UID: user.UID, GID: user.GID}
}

// makeDirs makes the directories that the container sees. What it only reads
// stays the host's own. All lie within a directory that is private to the host's
// user.
func (s *Session) makeDirs() error {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("prepare the session's directories: %w", err)
	}
	for sub, mode := range map[string]fs.FileMode{"input": 0o755, "skills": 0o755, "config": 0o755, "output": 0o700,
		"state": 0o700,
		"etc":   0o755} {
		dir := filepath.Join(s.cfg.Dir, sub)
		err := os.Mkdir(dir, mode)
		if err == nil {
			err = os.Chmod(dir, mode) // despite the umask
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("prepare the session's directories: %w", err)
		}
	}
	if from := s.cfg.Responses; from != "" {
		to := filepath.Join(s.cfg.Dir, "state", turns.ResponsesDir)
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return fmt.Errorf("copy the conversation that is continued: %w", err)
		}
	}
	return nil
}

// handOver gives the container's user what it writes, and checks that it can
// read the rest. It runs before the container exists; the user's own files never
// change.
func (s *Session) handOver(ctx context.Context) error {
	if s.cfg.User == nil {
		return nil
	}
	if err := writeAccounts(s.cfg.Dir, *s.cfg.User); err != nil {
		return fmt.Errorf("write the container's accounts: %w", err)
	}
	if os.Geteuid() != 0 {
		return s.giveSockets()
	}
	for dir, to := range map[string]*engine.User{filepath.Join(s.cfg.Dir, "output"): s.owner(),
		filepath.Join(s.cfg.Dir, "state"): s.owner(), s.cfg.AgentHome: s.cfg.User} {
		if dir == "" {
			continue
		}
		if err := s.giveTree(ctx, dir, privateName, *to); err != nil {
			return err
		}
	}
	if err := s.giveTrees(ctx, *s.cfg.User); err != nil {
		return err
	}
	if s.cfg.Resume != nil {
		if err := s.giveTree(ctx, s.tree.Dir(), "", *s.cfg.User); err != nil {
			return err
		}
	}
	if err := s.giveSockets(); err != nil {
		return err
	}
	return s.checkReadable()
}

// giveSockets gives agentd the directories of the sockets and what is in that of
// the host. Where the host is not root, agentd takes the directories, and their
// group may use the sockets.
func (s *Session) giveSockets() error {
	if s.cfg.User == nil || os.Geteuid() != 0 && s.server == nil {
		return nil
	}
	host := filepath.Join(s.seam.sockets, hostDir)
	served, err := os.ReadDir(host)
	if err != nil {
		return fmt.Errorf("look at the sockets: %w", err)
	}
	give := func(path string) error { return os.Lchown(path, s.owner().UID, s.owner().GID) }
	if os.Geteuid() != 0 {
		give = func(path string) error { return os.Chmod(path, 0o660) }
	} else {
		err = errors.Join(give(filepath.Join(s.seam.sockets, agentDir)), give(host))
	}
	for _, e := range served {
		err = errors.Join(err, give(filepath.Join(host, e.Name())))
	}
	if err != nil {
		return fmt.Errorf("give agentd the host's sockets: %w", err)
	}
	return nil
}

// checkReadable looks at what the user gave, which may be private to root: input that
// can't be read is refused, and objects that can't be read are only missed by git in
// the container.
func (s *Session) checkReadable() error {
	if dir := s.cfg.InputDir; dir != "" && !mayEnter(*s.cfg.User, dir) {
		return &Error{Code: CodeUsage, Param: "--input",
			Message: fmt.Sprintf("the container's user %d:%d cannot read %.200q", s.cfg.User.UID, s.cfg.User.GID, dir),
			Hint:    "open it (chmod o+rx), or choose the user with --user"}
	}
	if s.tree != nil {
		for _, dir := range s.tree.ObjectDirs() {
			if !mayEnter(*s.cfg.User, dir.HostPath) {
				s.Warnings = append(s.Warnings, visible.OneLine(fmt.Sprintf("git in the container could not "+
					"read %s, which "+
					"is closed to its user %d:%d; see --user", dir.HostPath, s.cfg.User.UID, s.cfg.User.GID), 300))
			}
		}
	}
	return nil
}

// mayEnter reports whether the permissions of dir let user list and enter it.
func mayEnter(user engine.User, dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	perm := info.Mode().Perm()
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == user.UID {
		perm >>= 6
	} else if ok && int(st.Gid) == user.GID {
		perm >>= 3
	}
	return perm&0o5 == 0o5
}

// writeAccounts writes the passwd and group files of the container, which name
// its user in every image: whoami, ssh, git and npm ask for one. The
// image's own accounts could not be used without privileges anyway.
func writeAccounts(dir string, user engine.User) error {
	var passwd, group strings.Builder
	line := func(name string, uid, gid int, home, shell string) {
		fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:%s\n", name, uid, gid, home, shell)
	}
	line(accountName, user.UID, user.GID, engine.Home, "/bin/sh")
	fmt.Fprintf(&group, "%s:x:%d:\n", accountName, user.GID)
	for _, other := range []struct {
		name, group string
		id          int
	}{{"root", "root", 0}, {"nobody", "nogroup", 65534}} {
		if other.id != user.UID {
			line(other.name, other.id, other.id, "/", "/usr/sbin/nologin")
		}
		if other.id != user.GID {
			fmt.Fprintf(&group, "%s:x:%d:\n", other.group, other.id)
		}
	}
	for name, text := range map[string]string{"passwd": passwd.String(), "group": group.String()} {
		path := filepath.Join(dir, "etc", name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chmod(path, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

func accountMounts(dir string) []engine.Mount {
	return []engine.Mount{
		{Source: filepath.Join(dir, "etc", "passwd"), Target: "/etc/passwd", ReadOnly: true},
		{Source: filepath.Join(dir, "etc", "group"), Target: "/etc/group", ReadOnly: true},
	}
}
