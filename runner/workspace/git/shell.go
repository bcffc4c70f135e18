package git

import (
	"os/exec"
	"strconv"
	"time"
)

// byShell makes a command one of a shell that bounds its processor time, and that of the processes it starts, where
// the system cannot do so after the start. seconds may not be more than this process has.
func byShell(cmd *exec.Cmd, seconds uint64) {
	const script = `ulimit -c 0 && ulimit -S -t "$0" && exec "$@"`
	cmd.Args = append([]string{"sh", "-c", script, strconv.FormatUint(seconds, 10), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// seconds is the bound of the processor time, as the system counts it.
func (g Runner) seconds() uint64 { return max(1, uint64(g.processor/time.Second)) }
