package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/diskusage"
	"holon/internal/procfs"
	"holon/internal/visible"
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

const (
	codeDiskQuota  Code = "disk_quota"      // a run, or a home, has more bytes than it may
	codeUnmeasured Code = "disk_unmeasured" // it cannot be found out how many bytes a run has
)

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

// A turn is measured every measurePause, or less often if needed so that measuring takes at most a twentieth
// of the time of one processor. One with Ask, whose client waits, is first measured after askedPause: before a model
// has answered it writes next to nothing, and many end sooner.
const (
	askedPause   = 50 * time.Millisecond
	measurePause = 2 * time.Second
	measureShare = 20
	beatPause    = 30 * time.Second
)

// A measurement in a container takes at most measureTime, and a turn ends after maxUnmeasured in a row that fail: what
// commands do there may be the cause.
const (
	measureTime   = 10 * time.Second
	maxUnmeasured = 3
)

// measure returns what the session takes of the disk, in its container where the files are there.
func (s *Session) measure(ctx context.Context) (int64, error) {
	if s.handle.Link == "" || s.link.files == nil {
		return s.measureHere(ctx)
	}
	return s.link.files.Usage(ctx, s.linked(), measureTime)
}

// measureHere returns what the session takes of the disk of this machine. Before its first turn no command had a file
// open, so the search for those without a name is left out.
func (s *Session) measureHere(ctx context.Context) (sum int64, err error) {
	dirs := []string{s.cfg.Dir}
	if s.handle.Link != "" { // what the container has and may write
		dirs = []string{filepath.Join(s.cfg.Dir, "output"), filepath.Join(s.cfg.Dir, "state")}
	}
	if s.tree != nil {
		dirs = append(dirs, s.tree.Dir())
	}
	if s.cfg.AgentHome != "" {
		dirs = []string{s.cfg.AgentHome} // which holds cfg.Dir
	}
	for _, dir := range dirs {
		n, err := workspace.Usage(ctx, dir)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	if s.asked.Load() && s.handle.Link == "" {
		sum += diskusage.Unlinked(processesOf(ctx, s.handle.ID), dirs)
	}
	return sum, nil
}

// watched runs a turn, enforces its quota and calls its Beat meanwhile, and ends it with a service.
func (s *Session) watched(ctx context.Context, t Turn, run func(context.Context) End) End {
	if t.DiskBytes <= 0 && t.Beat == nil && len(s.services.list) == 0 {
		return run(ctx)
	}
	s.link.quota = max(s.link.quota, t.DiskBytes)
	begin, begun, pause := time.Now(), int64(-1), askedPause
	if t.DiskBytes > 0 && t.Ask == nil { // before the turn can write; copies in a container are the same by then
		var err error
		measure := s.measureHere
		if s.shares() { // whose host has more than the container
			measure = s.measure
		}
		if begun, err = measure(ctx); err != nil {
			begun = -1
			s.cfg.Log.Debug("the disk usage before the turn cannot be measured", "err", err)
		}
	}
	if t.Ask == nil {
		pause = pauseAfter(begin)
	}
	s.asked.Store(true)
	turn, end := context.WithCancelCause(ctx)
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watch(watching, t, begun, pause, end)
	}()
	result := run(turn)
	stop()
	<-done
	if e, ok := errors.AsType[*Error](context.Cause(turn)); ok && !completed(result) &&
		slices.Contains([]Code{codeDiskQuota, codeUnmeasured, codeServiceFailed}, e.Code) {
		result.stopped = e
		s.cfg.Log.Warn("a turn was ended", "run", s.cfg.ID, "turn", result.TurnID, "err", e)
	}
	end(nil)
	return result
}

// watch looks after a turn until ctx ends: it calls Beat, and ends the turn when it has written more than its quota
// since begun bytes were in use, -1 if that could not be measured. What others write before the turn starts is not its
// own.
func (s *Session) watch(ctx context.Context, t Turn, begun int64, pause time.Duration, end context.CancelCauseFunc) {
	beaten, used := time.Now(), meter{begun: begun}
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-s.services.failed:
			end(err)
			return
		case <-time.After(pause):
		}
		start := time.Now()
		if t.DiskBytes > 0 {
			if err := used.check(ctx, s, t); err != nil {
				end(err)
				return
			}
		}
		if t.Beat != nil && time.Since(beaten) > beatPause {
			beaten = time.Now()
			if err := t.Beat(); err != nil {
				s.cfg.Log.Debug("the run's lease cannot be touched", "err", err)
			}
		}
		if pause = pauseAfter(start); used.failed > 0 {
			pause = measurePause
		}
	}
}

// meter compares what a turn has written with its quota.
type meter struct {
	begun  int64 // bytes in use before; -1: not measured
	failed int   // measurements in a row that failed by what is in the container
}

// check measures, and returns why the turn has to end, nil if it may go on.
func (m *meter) check(ctx context.Context, s *Session, t Turn) error {
	used, err := s.measure(ctx)
	if err != nil { // it is measured again
		s.cfg.Log.Debug("the turn's disk usage cannot be measured", "err", err)
		if s.handle.Link != "" && !passing(err) && ctx.Err() == nil {
			m.failed++
		}
		if m.failed < maxUnmeasured {
			return nil
		}
		return &Error{Code: codeUnmeasured, Param: "--disk", Err: err, Hint: "raise --memory, or set --disk 0",
			Message: "it cannot be measured how much of the disk the run takes"}
	}
	m.failed = 0
	if m.begun < 0 || t.Ask != nil && !t.started.Load() {
		m.begun = used
	}
	s.link.written = max(s.link.written, used-m.begun)
	if used-m.begun <= t.DiskBytes {
		return nil
	}
	return &Error{Code: codeDiskQuota, Param: "--disk", Hint: "raise --disk",
		Message: fmt.Sprintf("the run wrote %s, of at most %s", visible.Size(used-m.begun), visible.Size(t.DiskBytes))}
}

// pauseAfter is the pause after a measurement that began at start.
func pauseAfter(start time.Time) time.Duration {
	return max(measurePause, measureShare*time.Since(start))
}

// processesOf are the directories of the processes of a container in /proc. It knows them by their control group, whose
// path has the container's id. So it finds none where the engine runs on another machine or in a virtual one, where
// this process may not look at theirs, and none of a program that is not in a container.
func processesOf(ctx context.Context, container string) (dirs []string) {
	for _, pid := range procfs.PIDs() {
		if ctx.Err() != nil {
			return nil
		}
		dir := "/proc/" + strconv.Itoa(pid)
		group, err := procfs.ReadFile(filepath.Join(dir, "cgroup"), 64<<10)
		if err == nil && container != "" && strings.Contains(string(group), container) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
