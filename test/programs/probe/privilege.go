package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a system call of which only the error counts.
func call(number uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, no := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); no != 0 {
			return no
		}
		return nil
	}
}

func text(s string) uintptr {
	b := append([]byte(s), 0)
	p := &b[0]
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(p))
}

// kept keeps what system calls point to alive; the program ends soon.
var kept [][]byte

func zeros(n int) uintptr {
	b := make([]byte, n)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// privileges are what only root, or root of a namespace of one's own, can do.
func privileges() map[string]func() error {
	runtime.LockOSThread() // what is done to a thread's namespaces stays with it
	const newUser, newNS = unix.CLONE_NEWUSER, unix.CLONE_NEWNS
	cwd := uintptr(^uintptr(99)) // AT_FDCWD
	return map[string]func() error{
		"bpf":              call(unix.SYS_BPF, 0, zeros(128), 128),
		"mount":            func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
		"bind-mount":       func() error { return unix.Mount("/", "/tmp", "", unix.MS_BIND, "") },
		"remount-root":     func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"umount":           func() error { return unix.Unmount("/etc/passwd", unix.MNT_DETACH) },
		"fsopen":           call(unix.SYS_FSOPEN, text("tmpfs"), 0),
		"open-tree":        call(unix.SYS_OPEN_TREE, cwd, text("/"), 1),
		"move-mount":       call(unix.SYS_MOVE_MOUNT, cwd, text("/tmp"), cwd, text("/run"), 0),
		"pivot-root":       func() error { return unix.PivotRoot("/tmp", "/tmp") },
		"chroot":           func() error { return unix.Chroot("/tmp") },
		"unshare-user":     func() error { return unix.Unshare(newUser) },
		"unshare-mount":    func() error { return unix.Unshare(newNS) },
		"unshare-net":      func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		"clone-user":       call(unix.SYS_CLONE, newUser|uintptr(unix.SIGCHLD), 0, 0, 0, 0),
		"clone3-user":      clone3,
		"setns":            setns,
		"ptrace-init":      func() error { return unix.PtraceAttach(1) },
		"ptrace-seize":     call(unix.SYS_PTRACE, 0x4206, 1, 0, 0),
		"read-init-memory": readInit,
		"pidfd-getfd":      stealDescriptor,
		"init-environ":     func() error { _, err := os.ReadFile("/proc/1/environ"); return err },
		"init-mem":         func() error { return open("/proc/1/mem", unix.O_RDWR) },
		"init-root":        func() error { _, err := os.ReadDir("/proc/1/root/"); return err },
		"init-descriptors": func() error { _, err := os.ReadDir("/proc/1/fd"); return err },
		"mknod-device":     func() error { return unix.Mknod("/tmp/sda", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))) },
		"mknod-memory":     func() error { return unix.Mknod("/tmp/mem", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))) },
		"mknod-in-tree":    func() error { return unix.Mknod("kmsg", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 11))) },
		"setuid":           call(unix.SYS_SETUID, 0),
		"setgid":           call(unix.SYS_SETGID, 0),
		"setgroups":        func() error { return unix.Setgroups([]int{0}) },
		"setresuid":        call(unix.SYS_SETRESUID, 0, 0, 0),
		"setuid-program":   setuidProgram,
		"setuid-own":       setuidOwn,
		"capset":           capset,
		"ambient-capability": func() error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, 21, 0, 0)
		},
		"privileges-again": privilegesAgain,
		"chown":            chown,
		"keyctl":           call(unix.SYS_KEYCTL, 0, ^uintptr(2), 1),
		"add-key":          call(unix.SYS_ADD_KEY, text("user"), text("k"), text("v"), 1, ^uintptr(2)),
		"request-key":      call(unix.SYS_REQUEST_KEY, text("user"), text("k"), 0, ^uintptr(2)),
		"userfaultfd":      call(unix.SYS_USERFAULTFD, 0),
		"io-uring":         call(unix.SYS_IO_URING_SETUP, 8, zeros(128)),
		"perf-event":       call(unix.SYS_PERF_EVENT_OPEN, zeros(128), 0, ^uintptr(0), ^uintptr(0), 0),
		"init-module":      call(unix.SYS_INIT_MODULE, zeros(8), 8, text("")),
		"finit-module":     call(unix.SYS_FINIT_MODULE, 0, text(""), 0),
		"delete-module":    call(unix.SYS_DELETE_MODULE, text("x"), 0),
		"kexec":            call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		"reboot":           call(unix.SYS_REBOOT, 0xfee1dead, 672274793, 0, 0),
		"set-time":         call(unix.SYS_SETTIMEOFDAY, zeros(16), 0),
		"clock-settime":    call(unix.SYS_CLOCK_SETTIME, 0, zeros(16)),
		"sethostname":      func() error { return unix.Sethostname([]byte("host")) },
		"swapon":           call(unix.SYS_SWAPON, text("/tmp/x"), 0),
		"acct":             call(unix.SYS_ACCT, text("/tmp/x")),
		"quotactl":         call(unix.SYS_QUOTACTL, 0x80000300, text("/dev/null"), 0, 0),
		"open-by-handle":   call(unix.SYS_OPEN_BY_HANDLE_AT, cwd, zeros(32), 0),
		"kernel-log":       call(unix.SYS_SYSLOG, 3, zeros(64), 64),
		"kcmp":             call(unix.SYS_KCMP, 1, uintptr(os.Getpid()), 0, 0, 0),
		"realtime":         call(unix.SYS_SCHED_SETSCHEDULER, 0, 1, text("\x32\x00\x00\x00")),
		"priority":         func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) },
		"raise-open-files": raise(unix.RLIMIT_NOFILE),
		"raise-file-size":  raise(unix.RLIMIT_FSIZE),
		"raise-core":       raise(unix.RLIMIT_CORE),
		"oom-score":        func() error { return write("/proc/self/oom_score_adj", "-1000") },
		"device-shm-exec":  shmExec,
		"iopl":             iopl,
	}
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// clone3 asks for a user namespace with the call that filters can't look into.
func clone3() error {
	args := struct{ flags, pidfd, childTID, parentTID, exit, stack, stackSize, tls uint64 }{flags: unix.CLONE_NEWUSER,
		exit: uint64(unix.SIGCHLD)}
	pid, _, no := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if no != 0 {
		return no
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

func setns() error {
	fd, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWNS)
}

func readInit() error {
	buffer := make([]byte, 8)
	local := []unix.Iovec{{Base: &buffer[0], Len: 8}}
	_, err := unix.ProcessVMReadv(1, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	return err
}

func stealDescriptor() error {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.PidfdGetfd(fd, 3, 0)
	return err
}

// setuidProgram runs a program of the image that would be root, and looks at its
// user.
func setuidProgram() error {
	path, err := exec.LookPath("su")
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSetuid == 0 {
		return fmt.Errorf("%s is not setuid in this image", path)
	}
	cmd := exec.Command(path, "root")
	stdin, err := cmd.StdinPipe() // it waits for a password
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { stdin.Close(); cmd.Process.Kill(); cmd.Wait() }()
	for range 200 {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
		if err != nil {
			return err
		}
		if strings.Contains(string(status), "Name:\tsu\n") {
			_, rest, _ := strings.Cut(string(status), "\nUid:\t")
			uids := strings.Fields(rest)
			if len(uids) > 1 && uids[1] == "0" {
				return nil // root
			}
			return unix.EPERM
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("su did not start")
}

// setuidOwn makes a setuid program of one's own: it may be made, and stays what
// its maker is.
func setuidOwn() error {
	const path = "/tmp/own"
	if err := errors.Join(os.WriteFile(path, nil, 0o700), os.Chmod(path, 0o4755)); err != nil {
		return err
	}
	return os.Chown(path, 0, 0)
}

func capset() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
	return unix.Capset(&header, &data[0])
}

// privilegesAgain takes back the promise to gain none.
func privilegesAgain() error {
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)
}

func chown() error {
	if err := os.WriteFile("/tmp/mine", nil, 0o600); err != nil {
		return err
	}
	return os.Chown("/tmp/mine", 0, -1)
}

func raise(limit int) func() error {
	return func() error {
		var now unix.Rlimit
		if err := unix.Getrlimit(limit, &now); err != nil {
			return err
		}
		if now.Max == unix.RLIM_INFINITY {
			return nil
		}
		return unix.Setrlimit(limit, &unix.Rlimit{Cur: now.Max + 1, Max: now.Max + 1})
	}
}

func shmExec() error {
	const path = "/dev/shm/program"
	if err := os.WriteFile(path, []byte("#!/bin/true\n"), 0o700); err != nil {
		return err
	}
	return exec.Command(path).Run()
}
