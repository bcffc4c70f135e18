package process

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// headlessVar makes this test binary a program whose first thread has exited. It writes its pid to the named file then.
const headlessVar = "HOLON_TEST_HEADLESS"

func serveHeadless(file string) error {
	go func() {
		for {
			st, err := procfs.ReadStat(os.Getpid())
			if err == nil && st.State == 'Z' {
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600) // who waits for it times out
		time.Sleep(time.Hour)
	}()
	leave := func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if unix.Gettid() == os.Getpid() {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
	}
	for { // one of them runs on the first thread
		leave()
		go leave()
		time.Sleep(time.Millisecond)
	}
}
