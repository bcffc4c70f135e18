package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxIdleGroups bounds how many empty groups are kept for the next command.
// Using one again is cheaper than making one.
const maxIdleGroups = 4

// groups makes control groups (version 2) for commands, beneath the one that
// this program is in. A process is born into its command's group and its
// descendants with it; nothing it may do as an ordinary user leads out.
type groups struct {
	dir string // ours, removed at the end

	mu     sync.Mutex
	idle   []*group
	seq    int  // groups made so far
	broken bool // the kernel refused to start a child in a group
}

// group is one control group.
type group struct {
	path string
	dir  *os.File
	shot bool // killed once: the kernel may kill what is started in it later, too
}

// openGroups returns nil and a reason where this program may not make groups, as
// in a container without privileges, or where the kernel cannot kill a group.
func openGroups() (*groups, error) {
	parent, err := ownGroup()
	if err != nil {
		return nil, err
	}
	stat, err := readStat(os.Getpid())
	if err != nil {
		return nil, err
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	space = strings.Trim(strings.TrimPrefix(space, "pid:"), "[]")
	removeStale(parent, space)
	// A program may have several supervisors one after the other, or at once.
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("%s%s-%d-%d-", groupPrefix, space, stat.pid, stat.start))
	if err != nil {
		return nil, err
	}
	g := &groups{dir: dir}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		_ = os.Remove(dir)
		return nil, err
	}
	return g, nil
}

const groupPrefix = "holon-"

// ownGroup finds the directory of the group this program is in.
func ownGroup() (string, error) {
	data, err := readProc("/proc/self/cgroup", 64<<10)
	if err != nil {
		return "", err
	}
	own, ok := "", false
	for line := range strings.Lines(string(data)) {
		if p, v2 := strings.CutPrefix(line, "0::"); v2 {
			own, ok = strings.TrimSuffix(p, "\n"), true
		}
	}
	if !ok || strings.Contains(own, "..") {
		return "", errors.New("this program is in no control group of version 2")
	}
	mounts, err := readProc("/proc/self/mountinfo", 4<<20)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if len(f) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		if rel, err := filepath.Rel(f[3], own); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return filepath.Join(f[4], rel), nil
		}
	}
	return "", errors.New("no hierarchy of control groups of version 2 is mounted")
}

// removeStale ends what supervisors that were killed have left in their groups.
// A name says whose a group is: a program in another pid namespace is none of
// our business.
func removeStale(parent, space string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), groupPrefix+space+"-")
		f := strings.Split(rest, "-")
		if !ours || len(f) != 3 {
			continue
		}
		pid, err1 := strconv.Atoi(f[0])
		start, err2 := strconv.ParseUint(f[1], 10, 64)
		if errors.Join(err1, err2) != nil {
			continue
		}
		if st, err := readStat(pid); err == nil && st.start == start && st.state != 'Z' {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		children, _ := os.ReadDir(dir)
		for _, c := range children {
			if c.IsDir() {
				_ = os.Remove(filepath.Join(dir, c.Name()))
			}
		}
		_ = os.Remove(dir) // what still dies in it is for the next time
	}
}

// take returns an empty group for a command, or nil.
func (g *groups) take() *group {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken {
		return nil
	}
	if n := len(g.idle); n > 0 {
		c := g.idle[n-1]
		g.idle = g.idle[:n-1]
		return c
	}
	g.seq++
	path := filepath.Join(g.dir, strconv.Itoa(g.seq))
	if os.Mkdir(path, 0o755) != nil {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		_ = os.Remove(path)
		return nil
	}
	return &group{path: path, dir: dir}
}

// refused notes that a child could not be started in a group and returns true if
// it is to be tried without. A second refusal then is about something else.
func (g *groups) refused(c *group, err error) bool {
	if c == nil {
		return false
	}
	for _, e := range []error{unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EBUSY, unix.EOPNOTSUPP, unix.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// distrust ends the use of groups: a child was started without one that could
// not be started in one.
func (g *groups) distrust() {
	g.mu.Lock()
	g.broken = true
	g.mu.Unlock()
}

// give takes an empty group back. One that is not empty stays for close.
func (g *groups) give(c *group) {
	if c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.idle) < maxIdleGroups && !c.shot && !c.populated() {
		g.idle = append(g.idle, c)
		return
	}
	c.remove()
}

// close removes the groups.
func (g *groups) close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.idle {
		c.remove()
	}
	g.idle, g.broken = nil, true
	if err := os.Remove(g.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (c *group) remove() {
	c.dir.Close()
	_ = os.Remove(c.path) // it fails while something is in it
}

// populated reports whether a process in the group runs. A zombie does not.
func (c *group) populated() bool {
	data, err := readProc(c.path+"/cgroup.events", 4<<10)
	return err == nil && bytes.Contains(data, []byte("populated 1"))
}

// kill ends everything in the group at once, also what is being forked.
func (c *group) kill() {
	c.shot = true
	_ = os.WriteFile(c.path+"/cgroup.kill", []byte("1"), 0)
}

// members lists the processes in the group.
func (c *group) members() (found []procStat) {
	data, err := readProc(c.path+"/cgroup.procs", 4<<20)
	if err != nil {
		return nil
	}
	for f := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(f)
		if err != nil || pid == 0 {
			continue // 0 is one that our pid namespace cannot see
		}
		if st, err := readStat(pid); err == nil && st.state != 'Z' {
			found = append(found, st)
		}
	}
	return found
}
