package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// userLimits takes one of each thing that the kernel counts for each user id.
func userLimits() map[string]func() error {
	return map[string]func() error{
		"inotify": func() error { _, err := unix.InotifyInit1(unix.IN_CLOEXEC); return err },
		"pipe":    widePipe,
		"timer":   timer,
	}
}

// widePipe makes a pipe with as many pages as one may have.
func widePipe() error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(ends[0]), unix.F_SETPIPE_SZ, 1<<20)
	return err
}

// timer makes a timer, which reserves a pending signal.
func timer() error {
	var id int32
	if _, _, no := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_REALTIME, 0, uintptr(unsafe.Pointer(&id))); no != 0 {
		return no
	}
	return nil
}

// exhaust takes of each until the kernel gives no more, says so in a file, and
// keeps all.
func exhaust(args []string) {
	runtime.LockOSThread()
	for name, take := range userLimits() {
		var err error
		for err == nil {
			err = take()
		}
		if errors.Is(err, unix.EMFILE) && name != "inotify" {
			fmt.Println(name, err)
			os.Exit(1)
		}
	}
	if err := os.WriteFile(args[0], nil, 0o600); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	time.Sleep(10 * time.Minute) // until the container is removed
}
