// Package userprogram starts the programs that a person has chosen in the environment: the editor and the pager. A
// command starts no others by itself.
package userprogram

import (
	"context"
	"os/exec"
)

// Command returns the command of a line of the shell, as git reads EDITOR and PAGER, with further arguments.
func Command(ctx context.Context, line string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", line + ` "$@"`, "sh"}, args...)...)
}

// Installed reports whether the program can be found in PATH.
func Installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
