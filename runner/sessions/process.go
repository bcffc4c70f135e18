package sessions

import (
	"errors"
	"fmt"
	"os"

	"holon/internal/procfs"
	"holon/state"
)

// CodeStillRunning is the code of an error about a run that did not stop in time.
const CodeStillRunning state.Code = "still_running"

// Process is a procfs.Process as it stands in session.json.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since boot
	Boot  string `json:"boot"`
}

// ThisProcess identifies this process. Without /proc the result matches no
// process.
func ThisProcess() Process {
	p, err := procfs.Identify(os.Getpid())
	if err != nil {
		return Process{PID: os.Getpid()}
	}
	return Process(p)
}

// Signal sends sig to the process, unless it has ended: the lease of its run
// shows that.
func (p Process) Signal(sig os.Signal) error {
	err := procfs.Process(p).Signal(sig)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return nil
	case errors.Is(err, procfs.ErrOther):
		return &state.Error{Code: CodeStillRunning, Param: "run",
			Message: fmt.Sprintf("the run is held by a process that cannot be seen from here (%d)", p.PID),
			Hint:    "stop it where it was started"}
	}
	return err
}
