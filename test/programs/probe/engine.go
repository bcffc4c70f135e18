package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"holon/test/enginetest/report"
)

// engineCommands are what the engine suite runs inside an engine.
func engineCommands() map[string]func(args []string) {
	return map[string]func(args []string){
		"exit": func(args []string) { os.Exit(int(number(args, 0))) },
		"serve": func([]string) { // ends well on SIGTERM
			terminated := make(chan os.Signal, 1)
			signal.Notify(terminated, syscall.SIGTERM)
			fmt.Println("ready")
			<-terminated
			fmt.Println("bye")
			os.Exit(7)
		},
		"tick": func([]string) { // prints lines until it is killed
			for fmt.Println("ready"); ; time.Sleep(time.Millisecond) {
				fmt.Println("tick")
			}
		},
		"orphan": func([]string) { // leaves a process in a session of its own
			child := exec.Command(os.Args[0], "stubborn")
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			check(child.Start())
			fmt.Println("child", child.Process.Pid)
		},
		"print": func(args []string) { // n bytes that tell their position, then a word on stderr
			printBytes(int(number(args, 0)))
			fmt.Fprint(os.Stderr, "done")
		},
		"cat":    func(args []string) { must(os.Stdout.Write(must(os.ReadFile(args[0])))) },
		"write":  func(args []string) { check(os.WriteFile(args[0], []byte("written"), 0o600)) },
		"forks":  func(args []string) { fmt.Println("forked", forks(int(number(args, 0)))) },
		"report": func([]string) { check(json.NewEncoder(os.Stdout).Encode(describe())) },
	}
}

func printBytes(n int) {
	out := bufio.NewWriter(os.Stdout)
	line := make([]byte, 0, 64)
	for at := 0; at < n; at += len(line) {
		line = fmt.Appendf(line[:0], "%09d\n", at)
		line = line[:min(len(line), n-at)]
		must(out.Write(line))
	}
	check(out.Flush())
}

// forks counts how many of n processes it can have at once.
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
	for line := range strings.Lines(string(must(os.ReadFile("/proc/self/status")))) {
		key, value, _ := strings.Cut(line, ":")
		r.Status[key] = strings.TrimSpace(value)
	}
	for _, i := range must(net.Interfaces()) {
		r.Interfaces = append(r.Interfaces, i.Name)
	}
	for _, dir := range []string{"/", "/etc", "/tmp", "/run", "/home/agent", "/ro", "/rw"} {
		file := dir + "/.probe"
		r.Writable[dir] = os.WriteFile(file, nil, 0o700) == nil
		_ = os.Remove(file)
	}
	for resource, most := range map[int]*uint64{syscall.RLIMIT_NOFILE: &r.OpenFiles, syscall.RLIMIT_CORE: &r.CoreSize,
		syscall.RLIMIT_FSIZE: &r.FileSize} {
		var limit syscall.Rlimit
		check(syscall.Getrlimit(resource, &limit))
		*most = limit.Max
	}
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
