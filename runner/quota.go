package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/workspace"
	"holon/state"
)

// Quota bounds what runs may use of the disk; 0 means unbounded.
type Quota struct {
	Run   int64 // bytes that one run may write: its session and what it adds to its tree
	Home  int64 // bytes that HOLON_HOME may have for a run to be started
	Free  int64 // bytes that must be free on its disk for that
	Files int64 // inodes that must be free, where the file system counts them
}

// DefaultFreeFiles is how many files must fit on a disk for a run to be started.
const DefaultFreeFiles = 4096

// codeDiskQuota is the code of errors about a run, or a home, that has more
// bytes than it may.
const codeDiskQuota Code = "disk_quota"

// Admit refuses a run that does not fit on the disk, before anything is made.
func (q Quota) Admit(ctx context.Context, home state.Home) error {
	var st unix.Statfs_t
	if err := unix.Statfs(home.Dir(), &st); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", home.Dir(), err)
	}
	full := func(what string) error {
		return &Error{Code: CodeDiskFull, Param: "HOLON_HOME", Message: "the disk is nearly full: " + what,
			Hint: "free space on its disk (holon gc --keep-runs 10 may), or set HOLON_HOME to a directory elsewhere"}
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < q.Free {
		return full(fmt.Sprintf("%s are free of the %s that a run needs", visible.Size(free),
			visible.Size(q.Free)))
	}
	if st.Files > 0 && int64(st.Ffree) < q.Files {
		return full(fmt.Sprintf("%d more files fit, a run needs %d", st.Ffree, q.Files))
	}
	if q.Home <= 0 {
		return nil
	}
	used, err := workspace.Usage(ctx, home.Dir())
	if err != nil {
		return err
	}
	if used >= q.Home {
		return &Error{Code: codeDiskQuota, Param: "HOLON_MAX_DISK",
			Message: fmt.Sprintf("%s has %s, of at most %s", home.Dir(), visible.Size(used),
				visible.Size(q.Home)),
			Hint: "remove old runs with holon gc --keep-runs 10, or raise it"}
	}
	return nil
}

// A run is measured every measurePause, or less often if needed so that measuring takes at most a twentieth
// of the time of one processor.
const (
	measurePause = 2 * time.Second
	measureShare = 20
	beatPause    = 30 * time.Second
)

// measured is what a session took of the disk, and until when a turn that begins need not measure it again.
type measured struct {
	bytes int64
	until time.Time
}

// measure returns what the session takes of the disk.
func (s *Session) measure(ctx context.Context) (int64, error) {
	dirs := []string{s.cfg.Dir}
	if s.tree != nil {
		dirs = append(dirs, s.tree.Dir())
	}
	if s.cfg.AgentHome != "" {
		dirs = []string{s.cfg.AgentHome} // which holds cfg.Dir
	}
	start := time.Now()
	used, err := usage(ctx, dirs)
	if err != nil {
		return 0, err
	}
	used += unlinked(s.handle.ID, dirs)
	s.measured = measured{used, time.Now().Add(pauseAfter(start))}
	return used, nil
}

// begins returns what the session takes of the disk before a turn, -1 if that is not known. Turns that follow each
// other at once begin with one measurement: measureShare holds for all of them together.
func (s *Session) begins(ctx context.Context, t Turn) int64 {
	if t.DiskBytes <= 0 {
		return -1
	}
	if time.Until(s.measured.until) > 0 {
		return s.measured.bytes
	}
	used, err := s.measure(ctx)
	if err != nil {
		s.cfg.Log.Debug("the disk usage before the turn is not known", "err", err)
		return -1
	}
	return used
}

// watch looks after a turn until ctx ends: it calls Beat, and ends the turn when it has written more than its quota
// since begun bytes were in use.
func (s *Session) watch(ctx context.Context, t Turn, begun int64, end context.CancelCauseFunc) {
	beaten, pause := time.Now(), time.Until(s.measured.until)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		start := time.Now()
		if t.DiskBytes > 0 {
			used, err := s.measure(ctx)
			switch {
			case err != nil: // it is measured again
				s.cfg.Log.Debug("the turn's disk usage is not known", "err", err)
			case begun < 0:
				begun = used
			case used-begun > t.DiskBytes:
				end(&Error{Code: codeDiskQuota, Param: "--disk",
					Message: fmt.Sprintf("the run wrote %s, of at most %s", visible.Size(used-begun),
						visible.Size(t.DiskBytes)), Hint: "raise --disk"})
				return
			}
		}
		if t.Beat != nil && time.Since(beaten) > beatPause {
			beaten = time.Now()
			if err := t.Beat(); err != nil {
				s.cfg.Log.Debug("the run's lease cannot be touched", "err", err)
			}
		}
		pause = pauseAfter(start)
	}
}

// pauseAfter is the pause after a measurement that began at start.
func pauseAfter(start time.Time) time.Duration {
	return max(measurePause, measureShare*time.Since(start))
}

func usage(ctx context.Context, dirs []string) (sum int64, err error) {
	for _, dir := range dirs {
		n, err := workspace.Usage(ctx, dir)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// watched runs a turn and meanwhile enforces its quota and calls its Beat. What a turn wrote that called tools must not
// count for the next one, which is measured anew.
func (s *Session) watched(ctx context.Context, t Turn, watch Observer, run runTurn) End {
	if t.DiskBytes <= 0 && t.Beat == nil {
		return run(ctx, watch)
	}
	begun := s.begins(ctx, t) // before the turn can write
	turn, end := context.WithCancelCause(ctx)
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watch(watching, t, begun, end)
	}()
	tools := &toolObserver{Observer: watch}
	result := run(turn, tools)
	stop()
	<-done
	if !tools.none {
		s.measured = measured{}
	}
	if e, ok := errors.AsType[*Error](context.Cause(turn)); ok && e.Code == codeDiskQuota && !completed(result) {
		result.overQuota = e
	}
	end(nil)
	return result
}

// toolObserver is an Observer that learns from the end of a turn whether it called tools.
type toolObserver struct {
	Observer
	none bool // it is known that no tool was called
}

// Fact implements Observer.
func (o *toolObserver) Fact(ev turns.RuntimeEvent) {
	var c turns.Completed
	if ev.Type == turns.TurnCompleted {
		o.none = json.Unmarshal(ev.Payload, &c) == nil && c.ToolCalls == 0
	}
	o.Observer.Fact(ev)
}
