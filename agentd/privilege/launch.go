package privilege

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcher is the name by which this program knows that it is to become a command.
const launcher = "agentd: starting a command"

// Command returns the program and its arguments by which a command runs in dir as the commands' user: this program,
// which becomes that user and then the command. Its first call must be Launch. sys gets the capabilities for that.
//
// A new process of that user could be stopped by other commands. Were it still a copy of agentd, which lends it the
// memory until it runs a program, all of agentd would stop with it.
func (u *Users) Command(path, dir string, argv []string, sys *syscall.SysProcAttr) (program string, args []string) {
	sys.AmbientCaps = []uintptr{unix.CAP_SETUID, unix.CAP_SETGID}
	return "/proc/self/exe", append([]string{launcher, u.command.String(), dir, path}, argv...)
}

// Launch becomes the command that Command has named, if it has, and returns otherwise. What fails is said on standard
// error, with the exit codes of shells.
func Launch() {
	if len(os.Args) < 5 || os.Args[0] != launcher {
		return
	}
	err := launch(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	fmt.Fprintf(os.Stderr, "agentd: start %s: %v\n", os.Args[3], err)
	if errors.Is(err, fs.ErrNotExist) {
		os.Exit(127)
	}
	os.Exit(126)
}

func launch(user, dir, path string, argv []string) error {
	u, err := ParseUser(user)
	if err != nil {
		return err
	}
	return u.Exec(dir, path, argv)
}

// Exec becomes the user, without capabilities and other groups, and then the program at path in dir. It returns when
// that fails. This process is root with SETUID and SETGID.
func (u User) Exec(dir, path string, argv []string) error {
	runtime.LockOSThread() // exec takes this thread's rights
	header, none := capabilities(false)
	*none = unix.CapUserData{}
	for _, step := range []func() error{
		func() error { return raw(unix.SYS_SETGROUPS, 0, 0, 0) },
		func() error { return raw(unix.SYS_SETRESGID, u.GID, u.GID, u.GID) },
		func() error { return raw(unix.SYS_SETRESUID, u.UID, u.UID, u.UID) },
		func() error { return unix.Capset(header, none) },
		func() error { return os.Chdir(dir) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return syscall.Exec(path, argv, os.Environ())
}
