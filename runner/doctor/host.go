package doctor

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"holon/internal/unixsocket"
	"holon/internal/visible"
	"holon/runner"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state"
)

// checkHome makes the state home, as a run would, and notes what was not there.
func (e *examination) checkHome(ctx context.Context) []Result {
	before, err := state.FindHome(e.HolonHome, e.UserHome)
	if err != nil {
		return one(failed(err))
	}
	for dir := before.Dir(); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		e.made = append([]string{dir}, e.made...)
	}
	for _, dir := range []string{before.RunsDir(), before.CacheDir(), before.ContainersDir(),
		filepath.Dir(before.IPCDir("run")), filepath.Join(before.Dir(), "local")} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			e.made = append(e.made, dir)
		}
	}
	home, err := state.MakeHome(e.HolonHome, e.UserHome)
	if err != nil {
		return one(failed(err))
	}
	e.home = &home
	var st unix.Stat_t
	if err := unix.Stat(home.Dir(), &st); err != nil {
		return one(failed(fmt.Errorf("look at %s: %w", home.Dir(), err)))
	}
	r := seen("%s can be written to", home.Dir())
	mode := fs.FileMode(st.Mode).Perm()
	switch {
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return one(seen("%s belongs to the user %d, and that user can change the results of runs", home.Dir(),
			st.Uid).but(statusWarning,
			"set HOLON_HOME to a directory of your own"))
	case mode&0o002 != 0:
		return one(seen("%s can be written to by others (mode %04o)", home.Dir(), mode).but(statusFailed,
			"chmod 700 "+home.Dir()))
	case mode&0o075 != 0:
		return one(seen("%s is open to others (mode %04o)", home.Dir(), mode).but(statusWarning,
			"chmod 700 "+home.Dir()))
	}
	return append(one(r), e.undoKilled(ctx)...)
}

// undoKilled brings the files of the user back to what they were before an apply that was killed.
func (e *examination) undoKilled(ctx context.Context) (list []Result) {
	killed, err := landing.UndoKilled(ctx, e.home.RunPatterns(), false)
	if err != nil {
		return one(failed(err))
	}
	for _, k := range killed {
		r := seen("an apply of %s was killed; %s, and %s is removed", e.home.RunAt(k.Dir), k.Files(), k.What)
		if k.Err != nil {
			r = failed(k.Err)
		}
		list = append(list, r)
	}
	return list
}

// tidy removes the directories of the home that were not there before and are
// empty: their content would belong to another program.
func (e *examination) tidy() error {
	for _, dir := range slices.Backward(e.made) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) &&
			!errors.Is(err, syscall.EEXIST) {
			if e.home == nil {
				return nil // it could not be made either, which was reported
			}
			return err
		}
	}
	return nil
}

func (e *examination) hostChecks() []named {
	return []named{{"system", needsNothing, e.checkSystem}, {"sockets", needsHome, e.checkSockets},
		{"disk", needsHome, e.checkDisk}, {"git", needsNothing, e.checkGit}, {"agentd", needsNothing, e.checkAgentd},
		{"settings", needsNothing, e.checkSettings}}
}

// checkSockets looks at the length of sockets' paths.
func (e *examination) checkSockets(context.Context) []Result {
	proper := e.home.IPCDir(state.NewRunID())
	dir, ok, err := runner.SocketPlace(proper)
	switch {
	case err != nil:
		return one(failed(err))
	case !ok:
		return one(seen("paths below %s are too long for sockets, which go to %s", proper,
			filepath.Dir(dir)).but(statusWarning,
			"set HOLON_HOME to a shorter path, or ignore it where the engine can mount "+filepath.Dir(dir)))
	}
	return one(seen("their paths have %d bytes, of %d", len(dir)+runner.LongestSocket, unixsocket.MaxPath))
}

// checkDisk asks whether a run would be admitted.
func (e *examination) checkDisk(ctx context.Context) []Result {
	if err := e.Quota.Admit(ctx, *e.home); err != nil {
		return one(failed(ended(ctx, err)))
	}
	var st unix.Statfs_t
	if err := unix.Statfs(e.home.Dir(), &st); err != nil {
		return one(failed(fmt.Errorf("look at the disk of %s: %w", e.home.Dir(), err)))
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	r := seen("%s are free", visible.Size(free))
	if e.Quota.Run > 0 && free < e.Quota.Run {
		return one(seen("%s are free, and a run may write %s", visible.Size(free),
			visible.Size(e.Quota.Run)).but(statusWarning,
			"free some space (holon gc --keep-runs 10 may), or lower --disk"))
	}
	return one(r)
}

// oldestGit is the first version that has all that is asked of git.
const oldestGit = 239

func (e *examination) checkGit(ctx context.Context) []Result {
	version, err := git.Version(ctx)
	if err != nil {
		return one(failed(ended(ctx, err)))
	}
	parts := strings.SplitN(version, ".", 3)
	if len(parts) >= 2 {
		major, err := strconv.Atoi(parts[0])
		minor, merr := strconv.Atoi(parts[1])
		if err == nil && merr == nil && major*100+minor < oldestGit {
			return one(seen("version %s is too old", version).but(statusFailed, "install git 2.39 or newer"))
		}
	}
	return one(seen("version %s", version))
}

// checkAgentd looks at the program that goes into containers.
func (e *examination) checkAgentd(context.Context) []Result {
	path, err := e.Agentd()
	if err != nil {
		return one(failed(err))
	}
	info, err := os.Stat(path)
	if err != nil {
		return one(failed(fmt.Errorf("look at agentd: %w", err)))
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || os.Geteuid() == 0 && info.Mode()&0o005 != 0o005 {
		return one(seen("%s cannot be run by the container's user (mode %s)", path, info.Mode()).but(statusFailed,
			"chmod 755 "+path))
	}
	f, err := elf.Open(path)
	if err != nil {
		return one(seen("%s is not a program for Linux: %v", path, err).but(statusFailed,
			"set HOLON_AGENTD to an agentd that was built for Linux"))
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return one(seen("%s is not static: it runs only in images with its libraries", path).but(statusFailed,
				"build it with CGO_ENABLED=0, as make build does"))
		}
	}
	return one(seen("%s, static", path))
}
