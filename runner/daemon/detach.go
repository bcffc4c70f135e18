package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"holon/state"
)

// detached is a holon that StartDetached has started.
type detached struct {
	Run      string // id of the run that it holds; "": it has ended, since the run could not start
	Printed  []byte // with "": what it printed
	ExitCode int    // with "": its exit code
}

// StartDetached starts a holon in a session of its own, where no terminal and no Ctrl-C of this one reaches it, and
// waits until it has called Leave or ended. The end of ctx ends it until then.
func StartDetached(ctx context.Context, program string, args []string, prompt string) (*detached, error) {
	holder := exec.Command(program, args...) // it outlives this process, so no context ends it
	holder.Stdin, holder.Stderr = strings.NewReader(prompt), os.Stderr
	holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the holon that holds the run: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = holder.Process.Signal(syscall.SIGTERM) })
	defer stop()
	printed, err := io.ReadAll(out)
	if err != nil {
		return nil, fmt.Errorf("read the id of the run: %w", err)
	}
	if id, ok := strings.CutPrefix(string(printed), detachedLine); ok && state.CheckRunID(strings.TrimSpace(id)) == nil {
		return &detached{Run: strings.TrimSpace(id)}, nil
	}
	_ = holder.Wait() // its exit code says how it ended
	return &detached{Printed: printed, ExitCode: holder.ProcessState.ExitCode()}, nil
}

// detachedLine begins what the caller of StartDetached reads.
const detachedLine = "detached "

// Leave has the caller of StartDetached return with the id of the run, and sends what this process prints from then on
// nowhere: the caller's terminal may be gone. A caller that is gone reads nothing, and the run goes on all the same.
func Leave(run string) {
	_, _ = fmt.Fprintln(os.Stdout, detachedLine+run)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return // output stays where it was
	}
	defer null.Close()
	for _, fd := range []int{1, 2} {
		_ = unix.Dup2(int(null.Fd()), fd)
	}
}
