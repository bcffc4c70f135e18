package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/duration"
	"holon/responses/turns"
	"holon/runner/engine"
)

// checkUser compares the container's user there and here.
func (e *examination) checkUser(context.Context) []Result {
	p := &e.place
	want := engine.User{UID: os.Geteuid(), GID: os.Getegid()}
	if p.user != nil {
		want = *p.user
	}
	const remedy = "use an engine without user namespaces (no userns-remap, not rootless), so that both sides mean " +
		"the same by a number"
	if got := (engine.User{UID: p.seen.UID, GID: p.seen.GID}); got != want {
		return one(seen("it runs as %d:%d instead of %d:%d", got.UID, got.GID, want.UID, want.GID).but(statusFailed,
			remedy))
	}
	if p.handle.Link != "" {
		return one(seen("%d:%d there; it has copies of your files", want.UID, want.GID))
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(p.dir, turns.SharedFromContainer), &st); err != nil {
		why := "it made no file"
		if x := p.seen.Shared; x != nil && x.Error != "" {
			why = x.Error
		}
		return one(seen("%d:%d cannot share files: %s", want.UID, want.GID, why).but(statusFailed, remedy))
	}
	if int(st.Uid) != want.UID || int(st.Gid) != want.GID {
		return one(seen("files of the container's user %d:%d belong to %d:%d here", want.UID, want.GID, st.Uid,
			st.Gid).but(statusFailed, remedy))
	}
	if os.Geteuid() != 0 && p.user != nil {
		return one(seen("%d:%d there and here; your containers share the limits that the kernel has for each user",
			want.UID, want.GID))
	}
	return one(seen("%d:%d there and here", want.UID, want.GID))
}

// checkMounts asks whether host and container see each other's files.
func (e *examination) checkMounts(context.Context) []Result {
	p := &e.place
	const remedy = "set HOLON_HOME to a directory that the engine can mount: of this machine, and shared with it " +
		"where it runs in a virtual machine (file sharing); DOCKER_HOST must not name another machine"
	bad := func(format string, args ...any) []Result { return one(seen(format, args...).but(statusFailed, remedy)) }
	x := p.seen.Shared
	if x == nil {
		return skipped("the program in the container exchanged nothing")
	}
	if x.Error != "" {
		return bad("the container could not use %s: %s", p.dir, x.Error)
	}
	if x.Read != p.word {
		return bad("the container does not see what was written to %s", p.dir)
	}
	if _, err := os.Lstat(filepath.Join(p.dir, turns.SharedSentinel)); !errors.Is(err, fs.ErrNotExist) {
		return bad("the sentinel is still in %s, although the container deleted it", p.dir)
	}
	kept, err := durable.ReadFile(filepath.Join(p.dir, turns.SharedFromContainer), maxShared) // a container wrote it
	if err != nil || string(kept) != p.word {
		return bad("what the container wrote is not in %s", p.dir)
	}
	return one(seen("a sentinel was written, read back and deleted in the container; host and container see each " +
		"other's files"))
}

// maxShared bounds the file that a container writes.
const maxShared = 1 << 10

// maxDrift is how much the clocks may differ.
const maxDrift = 5 * time.Second

func (e *examination) checkClock(context.Context) []Result {
	p := &e.place
	drift := time.Duration(0)
	if t := p.seen.Time; t.Before(p.begin) {
		drift = t.Sub(p.begin)
	} else if t.After(p.end) {
		drift = t.Sub(p.end)
	}
	if drift.Abs() > maxDrift {
		return one(seen("the container's clock is off by %s", duration.Text(drift.Round(time.Second))).but(statusWarning,
			"set the clock of the engine's machine; restart its virtual machine if it has one"))
	}
	return one(seen("the same on both sides"))
}
