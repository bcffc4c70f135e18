package privilege

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that agentd goes on with: to become commands, and to
// end them.
var kept = []int{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}

// Start makes this process the server's user and returns the two users. The trees
// become the server's with all that is in them, the other dirs with the sockets in
// them. It has to begin as root: then it does not return but runs the program anew,
// which calls it again.
func Start(server, command User, trees, dirs []string) (*Users, error) {
	if os.Geteuid() == 0 {
		for _, tree := range trees {
			if err := give(server, tree, func(fs.DirEntry) bool { return true }); err != nil {
				return nil, err
			}
		}
		for _, dir := range dirs {
			if err := give(server, dir, func(e fs.DirEntry) bool { return e.Type() == fs.ModeSocket }); err != nil {
				return nil, err
			}
		}
		return nil, runAs(server)
	}
	if os.Geteuid() != server.UID || !capable() {
		return nil, fmt.Errorf("start agentd as root with the capabilities SETUID, SETGID, KILL and CHOWN: "+
			"it is user %d", os.Geteuid())
	}
	header, set := capabilities(false) // commands would have what is inheritable and ambient
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)),
		uintptr(unsafe.Pointer(set)), 0); errno != 0 {
		return nil, fmt.Errorf("keep capabilities from commands: %w", errno)
	}
	runtime.KeepAlive(header)
	runtime.KeepAlive(set)
	u := &Users{command: command, idle: make(chan *thread, maxIdle)}
	t, err := u.startThread() // shows that it can be
	if err != nil {
		return nil, err
	}
	u.idle <- t
	return u, nil
}

// give makes the server the owner of dir and of those in it, and lets its group use
// them: that of a host whose user is not root. No command runs yet.
func give(server User, dir string, those func(fs.DirEntry) bool) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		if err = os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	case owner(info) == server.UID:
		return nil
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("everybody may write to %s, which has to be agentd's alone: choose another directory", dir)
	}
	if err := giveTree(server, dir, those); err != nil {
		return fmt.Errorf("give %s to user %s: %w", dir, server, err)
	}
	return nil
}

func giveTree(server User, path string, those func(fs.DirEntry) bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := os.Lchown(path, 0, server.GID); err != nil { // only the owner may read and open it
		return err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !those(e) {
				continue
			}
			if err := giveTree(server, filepath.Join(path, e.Name()), those); err != nil {
				return err
			}
		}
	}
	if info.IsDir() || info.Mode().IsRegular() {
		if err := os.Chmod(path, info.Mode().Perm()|info.Mode().Perm()&0o700>>3); err != nil {
			return err
		}
	}
	if info.IsDir() { // not every file system has such lists
		_ = unix.Setxattr(path, defaultACL, openToGroup, 0)
	}
	return os.Lchown(path, server.UID, server.GID)
}

// A directory with a default list of rights gives what is made in it the mode that
// its maker asks for, whatever the umask, which is that of commands too.
const defaultACL = "system.posix_acl_default"

// openToGroup is the list user::rwx, group::rwx, other::r-x, as acl(5) and the
// kernel's posix_acl_xattr.h have it.
var openToGroup = []byte{2, 0, 0, 0,
	1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
	4, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
	32, 0, 5, 0, 0xff, 0xff, 0xff, 0xff}

// MakePublic makes a directory in which everybody may make files, in one of those
// that Start gave to the server.
func (u *Users) MakePublic(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if u == nil || err != nil {
		return err
	}
	_ = unix.Removexattr(dir, defaultACL) // files in it follow the umask
	return os.Chmod(dir, 0o777)
}

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// runAs runs this program anew as the server's user with the capabilities kept. It
// returns only when that fails.
func runAs(server User) error {
	runtime.LockOSThread() // exec takes this thread's rights
	header, set := capabilities(true)
	steps := []func() error{
		func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, // for commands, which inherit it
		func() error { return unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0) },
		func() error { return raw(unix.SYS_SETGROUPS, 0, 0, 0) },
		func() error { return raw(unix.SYS_SETRESGID, server.GID, server.GID, server.GID) },
		func() error { return raw(unix.SYS_SETRESUID, server.UID, server.UID, server.UID) },
		func() error { return unix.Capset(header, set) },
	}
	for _, c := range kept {
		steps = append(steps, func() error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0)
		})
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("become user %s: %w; start agentd with the capabilities SETUID, SETGID, KILL and CHOWN",
				server, err)
		}
	}
	program, err := os.Executable() // the kernel names the process after it, but the server may not reach it there
	if err == nil {
		_ = syscall.Exec(program, os.Args, os.Environ())
	}
	return fmt.Errorf("run agentd as user %s: %w", server, syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// capabilities returns those kept, for capset(2).
func capabilities(inheritable bool) (*unix.CapUserHeader, *unix.CapUserData) {
	var sets [2]unix.CapUserData // all that are kept are in the first
	for _, c := range kept {
		sets[0].Permitted |= 1 << c
	}
	sets[0].Effective = sets[0].Permitted
	if inheritable {
		sets[0].Inheritable = sets[0].Permitted
	}
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]
}

// raw changes the calling thread alone.
func raw(call uintptr, a, b, c int) error {
	if _, _, errno := unix.RawSyscall(call, uintptr(a), uintptr(b), uintptr(c)); errno != 0 {
		return errno
	}
	return nil
}

// capable reports whether this thread, and so the process that was just executed,
// has the capabilities kept.
func capable() bool {
	var set [2]unix.CapUserData
	if unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &set[0]) != nil {
		return false
	}
	for _, c := range kept {
		if set[c/32].Effective&(1<<(c%32)) == 0 {
			return false
		}
	}
	return true
}
