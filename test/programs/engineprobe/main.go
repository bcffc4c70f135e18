// Command probe is the program that the engine suite runs inside an engine. It
// is built static, so that an image can hold it alone.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holon/test/enginetest/report"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "exit":
		os.Exit(number(args[0]))
	case "serve": // ends well on SIGTERM
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		fmt.Println("ready")
		<-terminated
		fmt.Println("bye")
		os.Exit(7)
	case "stubborn": // does not end on SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "tick": // prints lines until it is killed
		for fmt.Println("ready"); ; time.Sleep(time.Millisecond) {
			fmt.Println("tick")
		}
	case "orphan": // leaves a process in a session of its own
		child := exec.Command(os.Args[0], "stubborn")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		check(child.Start())
		fmt.Println("child", child.Process.Pid)
	case "print": // n bytes that tell their position, then a word on stderr
		printBytes(number(args[0]))
		fmt.Fprint(os.Stderr, "done")
	case "cat":
		data, err := os.ReadFile(args[0])
		check(err)
		_, err = os.Stdout.Write(data)
		check(err)
	case "write":
		check(os.WriteFile(args[0], []byte("written"), 0o600))
	case "hog": // touches n bytes of memory
		memory := make([]byte, number(args[0]))
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
		fmt.Println("got", len(memory))
	case "fork": // counts how many of n processes it can have at once
		fmt.Println("forked", forks(number(args[0])))
	case "report":
		check(json.NewEncoder(os.Stdout).Encode(describe()))
	default:
		os.Exit(2)
	}
}

func printBytes(n int) {
	out := bufio.NewWriter(os.Stdout)
	line := make([]byte, 0, 64)
	for at := 0; at < n; at += len(line) {
		line = fmt.Appendf(line[:0], "%09d\n", at)
		line = line[:min(len(line), n-at)]
		_, err := out.Write(line)
		check(err)
	}
	check(out.Flush())
}

func forks(n int) int {
	var children []*exec.Cmd
	for range n {
		child := exec.Command(os.Args[0], "stubborn")
		if child.Start() != nil {
			break
		}
		children = append(children, child)
	}
	for _, child := range children {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	return len(children)
}

func describe() report.Report {
	r := report.Report{UID: os.Getuid(), GID: os.Getgid(), Env: os.Environ(), PID: os.Getpid(),
		Status: map[string]string{}, Writable: map[string]bool{}}
	r.Groups, _ = os.Getgroups()
	r.WorkDir, _ = os.Getwd()
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		r.Status[key] = strings.TrimSpace(value)
	}
	interfaces, err := net.Interfaces()
	check(err)
	for _, i := range interfaces {
		r.Interfaces = append(r.Interfaces, i.Name)
	}
	for _, dir := range []string{"/", "/etc", "/tmp", "/run", "/home/agent", "/ro", "/rw"} {
		file := dir + "/.probe"
		r.Writable[dir] = os.WriteFile(file, nil, 0o700) == nil
		_ = os.Remove(file)
	}
	var limit syscall.Rlimit
	check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	r.OpenFiles = limit.Max
	check(syscall.Getrlimit(syscall.RLIMIT_CORE, &limit))
	r.CoreSize = limit.Max
	check(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	r.FileSize = limit.Max
	r.Inodes = map[string]uint64{}
	for _, dir := range []string{"/tmp", "/run", "/home/agent"} {
		var fs syscall.Statfs_t
		if syscall.Statfs(dir, &fs) == nil {
			r.Inodes[dir] = fs.Files
		}
	}
	devices, _ := os.ReadDir("/dev")
	for _, d := range devices {
		r.Devices = append(r.Devices, d.Name())
	}
	return r
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
