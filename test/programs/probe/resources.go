package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func number(args []string, at int) int64 {
	return must(strconv.ParseInt(args[at], 10, 64))
}

// forkBomb starts programs until it may not, and leaves them running.
func forkBomb(args []string) {
	for n := 0; ; n++ {
		cmd := exec.Command("/proc/self/exe", "stubborn")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of the group that is killed
		if err := cmd.Start(); err != nil {
			fmt.Printf("forks\t%d\n", n)
			say("fork", err)
			return
		}
		if n > int(number(args, 0)) {
			say("fork", nil)
			return
		}
	}
}

// stubborn does not end on SIGTERM.
func stubborn([]string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

func memory(args []string) {
	held := make([]byte, number(args, 0))
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	say("memory", nil)
}

func descriptors([]string) {
	for n := 0; ; n++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Printf("descriptors\t%d\n", n)
			say("open", err)
			return
		}
	}
}

// inodes makes empty files in a directory until it may not; with a number, that
// many.
func inodes(args []string) {
	limit := int64(1 << 40)
	if len(args) > 1 {
		limit = number(args, 1)
	}
	dir, err := unix.Open(args[0], unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for n := int64(0); err == nil && n < limit; n++ {
		if err = unix.Mknodat(dir, "f"+strconv.FormatInt(n, 36), unix.S_IFREG|0o600, 0); err != nil {
			fmt.Printf("files\t%d\n", n)
		}
	}
	say("inodes", err)
	if len(args) == 1 {
		clear(args[0])
	}
}

func clear(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		os.RemoveAll(filepath.Join(dir, e.Name()))
	}
}

// fill writes a file until it may not, or it has as many bytes as told.
func fill(args []string) {
	limit, written := number(args, 1), int64(0)
	block := bytes.Repeat([]byte("x"), 1<<20)
	f, err := os.Create(args[0])
	for err == nil && written < limit {
		var n int
		n, err = f.Write(block)
		written += int64(n)
	}
	fmt.Printf("bytes\t%d\n", written)
	say("fill", err)
	os.Remove(args[0])
}

// sparse makes a file of that many bytes that holds nothing.
func sparse(args []string) {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := os.Create(args[0])
	if err == nil {
		err = f.Truncate(number(args, 1))
	}
	say("sparse", err)
}

// names makes files with names that harm a program that prints or splits them.
func names(args []string) {
	var errs []error
	for _, name := range []string{
		"new\nline", "tab\there", "\x1b[2J\x1b]0;title\x07", "\xff\xfe invalid", "-rf", "--output=x", "a b",
		"'\"`$(touch x)", "..\\..\\x", "con", "\u202etxt.exe",
		strings.Repeat("n", 255), "COM1:", " ", "~", "*",
	} {
		errs = append(errs, os.WriteFile(filepath.Join(args[0], name), []byte("x"), 0o600))
	}
	say("names", errors.Join(errs...))
}

func deep(args []string) {
	err := os.Chdir(args[0])
	for n := int64(0); err == nil && n < number(args, 1); n++ {
		if err = os.Mkdir("d", 0o700); err == nil {
			err = os.Chdir("d")
		}
	}
	if err == nil {
		err = os.WriteFile("bottom", []byte("x"), 0o600)
	}
	say("deep", err)
}

// swap exchanges a directory and a link to somewhere else, for ever.
func swap(args []string) {
	dir, target := args[0], args[1]
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600),
		os.Symlink(target, dir+".link")); err != nil {
		say("swap", err)
		return
	}
	fmt.Println("swapping")
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, dir+".link", unix.RENAME_EXCHANGE); err != nil {
			say("swap", err)
			return
		}
	}
}

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
	check(os.WriteFile(args[0], nil, 0o600))
	time.Sleep(10 * time.Minute) // until the container is removed
}
