package docker

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"holon/test/expect"
)

var update = flag.Bool("update", false, "write seccomp.json anew")

// The filter is the newest default of Docker's, also for an older engine. Engines before 23 leave the way to the
// hypervisor open (AF_VSOCK), and before 25 io_uring. Asynchronous I/O is not there either: the kernel counts its
// requests for the whole machine (fs.aio-max-nr), so one container could take them all.
func TestSeccompText(t *testing.T) {
	profile := seccomp.DefaultProfile()
	for _, rule := range profile.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return name == "io_setup" })
	}
	missing := uint(unix.ENOSYS) // programs have another way where the kernel lacks it
	profile.Syscalls = append(profile.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names: []string{"io_setup"}, Action: specs.ActErrno, ErrnoRet: &missing}})
	want, err := json.Marshal(profile)
	expect.NoError(t, err)
	if *update {
		expect.NoError(t, os.WriteFile("seccomp.json", want, 0o644))
		return
	}
	if !bytes.Equal([]byte(seccompText), want) {
		t.Error("seccomp.json is not the default with io_setup refused: run this test with -args -update, read the change")
	}
}
