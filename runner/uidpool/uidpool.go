// Package uidpool gives each container of root a user id of its own. The kernel
// counts inotify instances, pending signals and timers, pipe pages and message
// queues for each user id, across namespaces: containers that share an id
// could take them from each other.
//
// The numbers in use stand in one directory for all state homes of the machine,
// each as a link to a path that exists as long as the container may run. A number
// whose path is gone is free, so a killed process leaks none. The package promises
// nothing about other programs that use the same range.
package uidpool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"holon/state"
)

// The default range is not used by login accounts, systemd or /etc/subuid.
const (
	DefaultFirst = 0x70000000
	DefaultCount = 1 << 16
)

// codeExhausted is the code of an error when every number is in use.
const codeExhausted state.Code = "container_uids_exhausted"

// Pool is a range of numbers, which are user and group ids alike. The zero Pool
// has none.
type Pool struct {
	Dir   string // private to root, lost with a reboot; made when it is missing
	First int
	Count int
}

// Parse reads a range as FIRST-LAST.
func Parse(text string) (first, count int, err error) {
	from, to, _ := strings.Cut(text, "-")
	first, err = strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	if err != nil || err2 != nil || first < 1000 || last < first || last > 1<<31-2 {
		return 0, 0, fmt.Errorf("%.60q is not FIRST-LAST, two user ids from 1000 to %d", text, 1<<31-2)
	}
	return first, last - first + 1, nil
}

// Has reports whether a number is of the pool.
func (p Pool) Has(uid int) bool { return uid >= p.First && uid < p.First+p.Count }

// Take returns a number that no container has, and keeps it as long as the path holder exists: the one that
// the directory dir belongs to already, if that is of the pool and free, otherwise one that follows from
// name, so that what a container left belongs to the next of the same name. dir may be "". Errors are
// *state.Error with codeExhausted when all are taken.
func (p Pool) Take(dir, name, holder string) (int, error) {
	wish := crc32.ChecksumIEEE([]byte(name))
	var st unix.Stat_t
	if dir != "" && unix.Lstat(dir, &st) == nil && p.Has(int(st.Uid)) {
		wish = uint32(int(st.Uid) - p.First)
	}
	return p.takeFrom(wish, holder)
}

// takeFrom takes the first free number, beginning with the wished one.
func (p Pool) takeFrom(wish uint32, holder string) (int, error) {
	unlock, err := p.lock()
	if err != nil {
		return 0, fmt.Errorf("open the pool of container users: %w", err)
	}
	defer unlock()
	for i := range p.Count {
		uid := p.First + int((uint64(wish)+uint64(i))%uint64(p.Count))
		taken, err := p.take(uid, holder)
		if err != nil {
			return 0, fmt.Errorf("take a user for the container: %w", err)
		}
		if taken {
			return uid, nil
		}
	}
	return 0, &state.Error{Code: codeExhausted, Param: "container_uids",
		Hint:    "end some, or give container_uids a larger range",
		Message: fmt.Sprintf("all %d user ids for containers are in use", p.Count)}
}

func (p Pool) take(uid int, holder string) (bool, error) {
	lease := filepath.Join(p.Dir, strconv.Itoa(uid))
	of, err := os.Readlink(lease)
	if err == nil {
		if _, err = os.Lstat(of); !errors.Is(err, fs.ErrNotExist) {
			return false, nil // in use, or not to be told
		}
		err = os.Remove(lease)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return false, err
	}
	return true, os.Symlink(holder, lease)
}

// lock excludes other processes that take numbers. The directory must be root's
// alone, or others could say what is in use.
func (p Pool) lock() (unlock func(), err error) {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(p.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(dir.Fd()), &st); err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
		err = fmt.Errorf("%s must belong to uid %d with mode 0700; remove it", p.Dir, os.Geteuid())
	}
	if err == nil {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { dir.Close() }, nil
}
