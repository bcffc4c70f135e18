// Command kubernetes runs a command with a Kubernetes cluster of one node: etcd, containerd, and the API server,
// controllers, scheduler and kubelet of a release, as they are.
//
//	kubernetes -tools DIR COMMAND [ARGUMENT...]
//
// The command finds HOLON_TEST_KUBECONFIG, an administrator's, and HOLON_TEST_KUBERNETES_CONTROL, a Unix socket that
// takes one line a connection, "load IMAGE", "expose PORT SOCKET", "stop COMPONENT" or "start COMPONENT", and answers
// "ok" or an error. load brings an image of the local Docker engine to the node, and expose lets Pods reach a Unix
// socket as a port of the node. Without a command it prints "ready" and works until its standard input ends or
// SIGTERM comes. The cluster lives in namespaces of processes, mounts and network of its own, with which all of it
// ends, whatever ends this program. It needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// startWithin bounds the start of a cluster.
const startWithin = 5 * time.Minute

func main() {
	tools := flag.String("tools", "", "directory of the programs of Kubernetes and of pause.tar")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "init": // only this program starts these two
		os.Exit(reap(flag.Args()[1:]))
	case "inside":
		err = inside(*tools, flag.Arg(1), flag.Arg(2))
	default:
		err = run(*tools, flag.Args())
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(4)
	}
}

// run starts a cluster, runs the command and ends the cluster.
func run(tools string, command []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	dir, err := os.MkdirTemp("", "k8s")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	defer removeEmpty(missing(privateDirs))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := configure(dir, "https://"+listener.Addr().String()); err != nil {
		return err
	}
	cgroup := filepath.Base(dir)
	defer removeCgroups(cgroup)
	if err := makeCgroups(cgroup); err != nil {
		return fmt.Errorf("make control groups: %w", err)
	}

	runtime.LockOSThread() // the cluster ends with the thread that started it
	cluster := exec.Command("/proc/self/exe", "-tools", tools, "init", "/proc/self/exe", "-tools", tools, "inside", dir,
		cgroup)
	cluster.Stderr = os.Stderr
	cluster.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true,
	}
	ready, err := cluster.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cluster.Start(); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	defer func() {
		_ = cluster.Process.Kill()
		_ = cluster.Wait()
	}()
	go relay(listener, "unix", filepath.Join(dir, "api.sock"))
	kill := context.AfterFunc(ctx, func() { _ = cluster.Process.Kill() })
	defer kill()
	if line, _ := io.ReadAll(ready); string(line) != "ready\n" {
		return errors.New("the cluster did not start: its log is above")
	}
	return work(ctx, dir, command)
}

// work runs the command, or waits for the end.
func work(ctx context.Context, dir string, command []string) error {
	config, control := filepath.Join(dir, "admin.kubeconfig"), filepath.Join(dir, "control.sock")
	if len(command) == 0 {
		fmt.Printf("HOLON_TEST_KUBECONFIG=%s\nHOLON_TEST_KUBERNETES_CONTROL=%s\nready\n", config, control)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, os.Stdin)
		}()
		select {
		case <-ctx.Done():
		case <-ended:
		}
		return nil
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOLON_TEST_KUBECONFIG="+config, "HOLON_TEST_KUBERNETES_CONTROL="+control)
	return cmd.Run()
}

// relay copies each connection to one that it dials, until the listener is closed.
func relay(listener net.Listener, network, address string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial(network, address)
			if err != nil {
				return
			}
			defer to.Close()
			done := make(chan struct{}, 2)
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					done <- struct{}{}
				}()
			}
			<-done // both sides of TLS end together
		}()
	}
}

// reap is process 1 of the cluster: it runs a command and waits for orphans. Its end ends all processes.
func reap(command []string) int {
	pid, err := syscall.ForkExec(command[0], command, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		return 4
	}
	_ = syscall.Close(1) // its end of the pipe that says "ready"
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if ended == pid || (err != nil && err != syscall.EINTR) {
			return status.ExitStatus()
		}
	}
}

// cgroupRoots are the hierarchies of the first version of cgroups, or the one of the second.
func cgroupRoots() []string {
	found, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	var roots []string
	for _, path := range found {
		if !strings.HasSuffix(filepath.Dir(path), "/unified") {
			roots = append(roots, filepath.Dir(path))
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup"}
	}
	return roots
}

func makeCgroups(name string) error {
	for _, root := range cgroupRoots() {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new group of the first version
			if value, err := os.ReadFile(filepath.Join(root, file)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// removeCgroups removes the groups, which have no process when the cluster ended.
func removeCgroups(name string) {
	for _, root := range append(cgroupRoots(), "/sys/fs/cgroup/unified") {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = os.Remove(dirs[i])
		}
	}
}

// missing returns those directories that are not there.
func missing(dirs []string) []string {
	var found []string
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			found = append(found, dir)
		}
	}
	return found
}

func removeEmpty(dirs []string) {
	for _, dir := range dirs {
		_ = os.Remove(dir)
	}
}
