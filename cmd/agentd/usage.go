package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"holon/internal/diskusage"
	"holon/internal/procfs"
)

// printUsage prints how many bytes of the disk directories take, and the files of their disks that processes hold open
// without a name. Each is measured with the rights of its owner, which root without other capabilities lacks. One in
// which the owner closed a directory is not measured: its name follows, in a line.
func printUsage(ctx context.Context, args []string, stdout, help io.Writer) error {
	fs := flag.NewFlagSet("agentd usage", flag.ContinueOnError)
	fs.SetOutput(help)
	fs.Usage = func() { fmt.Fprintln(help, "Usage of agentd usage: agentd usage DIR…") }
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if fs.NArg() == 0 {
		return usageError{errors.New("usage takes at least one directory")}
	}
	byOwner := map[[2]int][]string{}
	for _, dir := range fs.Args() {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return fmt.Errorf("measure %s: %w", dir, err)
		}
		owner := [2]int{int(st.Uid), int(st.Gid)}
		byOwner[owner] = append(byOwner[owner], dir)
	}
	var sum int64
	var closed []string
	for owner, dirs := range byOwner {
		n, some, err := usageAs(ctx, owner[0], owner[1], dirs)
		if err != nil {
			return err
		}
		sum, closed = sum+n, append(closed, some...)
	}
	_, err := fmt.Fprintln(stdout, strings.Join(append([]string{fmt.Sprint(sum)}, closed...), "\n"))
	return err
}

// usageAs measures directories with the rights of a user if this process is root. Root is still its real and saved
// user, so that no process of that user can signal or trace it.
func usageAs(ctx context.Context, uid, gid int, dirs []string) (sum int64, closed []string, err error) {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setegid(gid), syscall.Seteuid(uid)); err != nil {
			return 0, nil, fmt.Errorf("take the rights of user %d:%d: %w", uid, gid, err)
		}
		defer func() { err = errors.Join(err, syscall.Seteuid(0), syscall.Setegid(0)) }()
	}
	for _, dir := range dirs {
		n, skipped, err := diskusage.Dir(ctx, dir)
		switch {
		case err != nil:
			return 0, nil, fmt.Errorf("measure %s: %w", dir, err)
		case skipped:
			closed = append(closed, dir)
		default:
			sum += n
		}
	}
	var processes []string
	for _, pid := range procfs.PIDs() {
		processes = append(processes, filepath.Join("/proc", strconv.Itoa(pid)))
	}
	return sum + diskusage.Unlinked(processes, dirs), closed, nil
}
