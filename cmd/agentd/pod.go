package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"holon/agentd/pod"
	"holon/agentd/privilege"
)

// Exit codes of "agentd pod start" that the kubernetes engine tells apart.
const (
	exitStarted   = 10
	exitCannotRun = 11
)

const podUsage = `agentd pod is what the kubernetes engine of holon runs in its Pods.

  agentd pod prepare VOLUME NAME…   make directories (NAME/) and files in a volume, and put agentd there
  agentd pod wait                   do nothing until SIGTERM
  agentd pod hold [flags]           be process 1, and start a program once that is asked for
  agentd pod start VOLUME           ask for it
  agentd pod stop GRACE             end the program
  agentd pod unpack VOLUME          read a tar from standard input
  agentd pod pack DIR               write a tar to standard output
  agentd pod as UID:GID PROGRAM…    become a user and then a program
`

// runInPod runs a step of a Pod.
func runInPod(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New("pod takes a step; see agentd pod help")}
	}
	step, args := args[0], args[1:]
	least := map[string]int{"prepare": 1, "start": 1, "stop": 1, "unpack": 1, "pack": 1, "as": 2}
	if len(args) < least[step] {
		return usageError{fmt.Errorf("pod %s takes more arguments; see agentd pod help", step)}
	}
	switch step {
	case "prepare":
		return pod.Prepare(args[0], args[1:])
	case "wait":
		<-ctx.Done()
		return nil
	case "hold":
		return holdProgram(ctx, args, stderr)
	case "start":
		return startProgram(ctx, args[0])
	case "stop":
		grace, err := time.ParseDuration(args[0])
		if err != nil {
			return usageError{err}
		}
		return pod.Stop(ctx, grace)
	case "unpack":
		return pod.Unpack(ctx, args[0], stdin, stdout)
	case "pack":
		return pod.Pack(ctx, args[0], stdout)
	case "as":
		return becomeUser(args[0], args[1:])
	case "help", "-h", "--help":
		fmt.Fprint(stdout, podUsage)
		return nil
	}
	return usageError{fmt.Errorf("pod has no step %q; see agentd pod help", step)}
}

func holdProgram(ctx context.Context, args []string, help io.Writer) error {
	var limits pod.Limits
	fs := flag.NewFlagSet("agentd pod hold", flag.ContinueOnError)
	fs.SetOutput(help)
	fs.Uint64Var(&limits.OpenFiles, "open-files", 0, "most open `files` of a process")
	fs.Uint64Var(&limits.FileSize, "file-size", 0, "most `bytes` of a file")
	fs.Uint64Var(&limits.Core, "core", 0, "most `bytes` of a core dump")
	if err := fs.Parse(args); err != nil {
		return usageError{err}
	}
	code, err := pod.Hold(ctx, limits)
	if err == nil && code != 0 {
		err = exitError(code)
	}
	return err
}

func startProgram(ctx context.Context, volume string) error {
	err := pod.Start(ctx, volume)
	code := 0
	switch {
	case errors.Is(err, pod.ErrStarted):
		code = exitStarted
	case errors.Is(err, pod.ErrCannotRun):
		code = exitCannotRun
	default:
		return err
	}
	fmt.Fprintln(os.Stderr, err)
	return exitError(code)
}

// becomeUser is how a command runs as another user than the container's.
func becomeUser(user string, argv []string) error {
	u, err := privilege.ParseUser(user)
	if err != nil {
		return usageError{err}
	}
	if u.UID == os.Getuid() && u.GID == os.Getgid() {
		err = syscall.Exec(argv[0], argv, os.Environ())
	} else {
		err = u.Exec("/", argv[0], argv)
	}
	return fmt.Errorf("run %s as %s: %w", argv[0], user, err)
}
