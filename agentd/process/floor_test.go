package process

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// floorVar makes this test binary a floor of the given kind instead.
const floorVar = "HOLON_BENCH_FLOOR"

// floors are the bare ways to run a command with both of its streams read.
var floors = map[string]func(path string, env []string) error{
	"exec":     execTrue,
	"syscalls": func(path string, env []string) error { return bareTrue(path, env, false) },
	"session":  func(path string, env []string) error { return bareTrue(path, env, true) },
}

// execTrue is what a Go program would write: two goroutines read, one waits.
func execTrue(path string, env []string) error {
	var out, err bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: []string{"true"}, Dir: "/", Env: env, Stdout: &out, Stderr: &err}
	return cmd.Run()
}

// bareTrue is the least there is: one thread that blocks in read and in wait. A
// session of its own makes the kernel schedule the command as a group of its own.
func bareTrue(path string, env []string, session bool) error {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	var ours, theirs [2]int
	for i := range ours {
		if ours[i], theirs[i], err = pipe(); err != nil {
			return err
		}
	}
	pid, _, err := syscall.StartProcess(path, []string{"true"}, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{uintptr(null), uintptr(theirs[0]), uintptr(theirs[1])},
		Sys: &syscall.SysProcAttr{Setsid: session},
	})
	for _, fd := range theirs {
		unix.Close(fd)
	}
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for _, fd := range ours {
		for n := 1; n > 0; {
			n, _ = unix.Read(fd, buf)
		}
		unix.Close(fd)
	}
	_, err = unix.Wait4(pid, nil, 0, nil)
	return err
}

// serveFloor runs a command for every byte that comes in and answers with the
// nanoseconds it took, until the input ends.
func serveFloor(kind string) error {
	path, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	env := Environ(os.Environ())
	for {
		var order [1]byte
		if _, err := os.Stdin.Read(order[:]); err != nil {
			return nil
		}
		began := time.Now()
		if err := floors[kind](path, env); err != nil {
			return err
		}
		if err := binary.Write(os.Stdout, binary.LittleEndian, int64(time.Since(began))); err != nil {
			return err
		}
	}
}

// floor is such a process.
type floor struct {
	name string
	in   io.Writer
	out  io.Reader
}

// startFloor starts a floor that does not descend from this program, or the
// supervisor would look at it. It must come before the supervisor.
func startFloor(b *testing.B, kind string) *floor {
	b.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("setsid", "--fork", self)
	cmd.Env = append(os.Environ(), floorVar+"="+kind)
	cmd.Stderr = os.Stderr
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	cmd.Stdin, cmd.Stdout = inR, outW
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	inR.Close()
	outW.Close()
	b.Cleanup(func() {
		inW.Close() // ends it
		outR.Close()
	})
	return &floor{kind, inW, outR}
}

func (f *floor) run(b *testing.B) time.Duration {
	var took int64
	_, err := f.in.Write([]byte{1})
	if err == nil {
		err = binary.Read(f.out, binary.LittleEndian, &took)
	}
	if err != nil {
		b.Fatalf("the floor %s: %v", f.name, err)
	}
	return time.Duration(took)
}
