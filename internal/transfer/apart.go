package transfer

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// ServeApart is Serve in a process of its own, which takes the rights of those whose files they are: this program, by
// its command "files", as root if root is this one's real user. It ends with what the host sends.
func ServeApart(ctx context.Context, stream io.ReadWriter) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "files")
	cmd.Stdout, cmd.Stderr = stream, os.Stderr
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{NoSetGroups: true}}
	}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agentd: move files:", err)
		return
	}
	go func() {
		_, _ = io.Copy(stdin, stream)
		_ = cmd.Process.Kill() // or it has ended
	}()
	_ = cmd.Wait() // the host sees that the stream ends
}
