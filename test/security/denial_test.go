package security

import "testing"

// The kernel refuses every way to ask for an operation that needs a privilege.
func TestPrivilege(t *testing.T) {
	t.Parallel()
	got := newLab(t).attack(nil, "/holon/input/probe privilege").completed(t).outcomes(t)
	denied(t, got, map[string]string{
		"bpf": "EPERM", "perf-event": "EPERM", "userfaultfd": "EPERM", "io-uring": "EPERM|ENOSYS",
		"mount": "EPERM", "bind-mount": "EPERM", "remount-root": "EPERM", "umount": "EPERM", "fsopen": "EPERM",
		"open-tree":  "EPERM",
		"move-mount": "EPERM", "pivot-root": "EPERM", "chroot": "EPERM",
		"unshare-user": "EPERM", "unshare-mount": "EPERM", "unshare-net": "EPERM", "clone-user": "EPERM",
		"clone3-user": "ENOSYS", "setns": "EPERM",
		"ptrace-init": "EPERM", "ptrace-seize": "EPERM", "read-init-memory": "EPERM", "pidfd-getfd": "EPERM",
		"init-environ": "EACCES", "init-mem": "EACCES", "init-root": "EACCES", "init-descriptors": "EACCES",
		"mknod-device": "EPERM", "mknod-memory": "EPERM", "mknod-in-tree": "EPERM",
		"setuid": "EPERM", "setgid": "EPERM", "setgroups": "EPERM", "setresuid": "EPERM", "setuid-program": "EPERM",
		"setuid-own": "EPERM",
		"capset":     "EPERM", "ambient-capability": "EPERM", "privileges-again": "EINVAL", "chown": "EPERM",
		"keyctl": "EPERM", "add-key": "EPERM", "request-key": "EPERM",
		"init-module": "EPERM", "finit-module": "EPERM", "delete-module": "EPERM", "kexec": "EPERM", "reboot": "EPERM",
		"set-time": "EPERM", "clock-settime": "EPERM", "sethostname": "EPERM", "swapon": "EPERM", "acct": "EPERM",
		"quotactl":       "EPERM",
		"open-by-handle": "EPERM", "kernel-log": "EPERM", "kcmp": "EPERM", "realtime": "EPERM",
		"priority":         "EACCES|EPERM",
		"raise-open-files": "EPERM", "raise-file-size": "EPERM", "raise-core": "EPERM", "oom-score": "EACCES",
		"device-shm-exec": "EACCES", "iopl": "EPERM",
	})
}

// Resources of the machine and of other sessions are absent or read-only.
func TestVisibility(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	got := l.attack(nil, "/holon/input/probe visible").completed(t).outcomes(t)
	denied(t, got, map[string]string{
		"host-processes": "ESRCH", "kill-host": "ESRCH", "host-sockets": "ENOENT", "other-sessions": "EACCES|ENOENT",
		"docker-socket": "ENOENT",
		"host-files":    "EACCES", "shared-memory": "ENOENT", "disks": "ENOENT", "kernel-messages": "ENOENT",
		"memory-device": "ENOENT",
		"kcore":         "ENODATA|ENOENT", "keys": "ENODATA", "timer-list": "ENODATA", "firmware": "ENODATA",
		"core-pattern": "EACCES|EROFS", "modprobe": "EACCES|EROFS|ENOENT", "sysctl": "EACCES|EROFS",
		"sysrq": "EACCES|EROFS|ENOENT", "uevent-helper": "EACCES|EROFS|ENOENT",
		"release-agent": "EACCES|EROFS|ENOENT", "cgroup-limit": "EACCES|EROFS|ENOENT", "cgroup-make": "EROFS|EACCES",
		"write-root": "EROFS", "write-etc": "EROFS", "write-passwd": "EACCES|EROFS", "write-agentd": "EROFS",
		"replace-agentd": "EXDEV|EBUSY|EROFS",
		"write-input":    "EROFS", "write-objects": "EROFS", "write-skills": "EROFS",
	})
}

// Without an allow-list no protocol leads out.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	got := newLab(t).attack(nil, "/holon/input/probe network").completed(t).outcomes(t)
	denied(t, got, map[string]string{
		"tcp": "ENETUNREACH", "tcp6": "EADDRNOTAVAIL|ENETUNREACH", "metadata": "ENETUNREACH", "gateway": "ENETUNREACH",
		"private":     "ENETUNREACH",
		"link-local6": "EINVAL|ENETUNREACH", "udp": "ENETUNREACH", "broadcast": "ENETUNREACH", "dns": "DNS",
		"interfaces": "ENODEV",
		"raw":        "EPERM", "packet": "EPERM", "configure": "EPERM", "host-vsock": "EPERM", "kernel-crypto": "EPERM",
		"bluetooth": "EAFNOSUPPORT|EPERM", "can": "EAFNOSUPPORT|EPERM",
	})
}
