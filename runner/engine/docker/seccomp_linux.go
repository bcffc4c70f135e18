package docker

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// ownProfile is how isolation calls the profile that Create sets.
const ownProfile = "holon"

// seccompProfileText returns the filter of system calls that containers get: the
// newest default of Docker's, also for an older engine. Engines before 23
// leave the way to the hypervisor open (AF_VSOCK), and before 25 io_uring. Asynchronous
// I/O is not there either: the kernel counts its requests for the whole machine
// (fs.aio-max-nr), so one container could take them all.
func seccompProfileText() (string, error) {
	profile := seccomp.DefaultProfile()
	for _, rule := range profile.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return name == "io_setup" })
	}
	missing := uint(unix.ENOSYS) // programs have another way where the kernel lacks it
	profile.Syscalls = append(profile.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names: []string{"io_setup"}, Action: specs.ActErrno, ErrnoRet: &missing}})
	text, err := json.Marshal(profile)
	if err != nil {
		return "", fmt.Errorf("write the seccomp profile: %w", err)
	}
	return string(text), nil
}
