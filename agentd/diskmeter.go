package agentd

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"holon/agentd/privilege"
)

// How many files and folders a measurement looks at, since a command may have added any number of its own, and how many
// names it holds at once.
const (
	maxCounted = 2_000_000
	readAtOnce = 256
)

// diskMeter adds up regular files. It follows no link, and counts what it cannot read as nothing.
type diskMeter struct {
	limit  int64                  // of total, beyond which it stops
	counts func(path string) bool // files that count; nil: all
	skip   string                 // a directory that does not count
	users  *privilege.Users       // they can read their files
	theirs string

	seen  int
	total int64
}

// add adds the files under dir. The error says why it stopped early.
func (m *diskMeter) add(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil //nolint:nilerr // it counts as nothing
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(readAtOnce)
		for _, e := range entries {
			if err := m.entry(filepath.Join(dir, e.Name()), e); err != nil {
				return err
			}
		}
		if err != nil { // the end, as a rule
			return nil //nolint:nilerr // as above
		}
	}
}

func (m *diskMeter) entry(path string, e os.DirEntry) (err error) {
	if m.seen++; m.seen > maxCounted {
		return fmt.Errorf("there are more than %d files", maxCounted)
	}
	switch {
	case e.IsDir() && path == m.theirs:
		m.users.Do(func() { err = m.add(path) })
	case e.IsDir() && path != m.skip:
		err = m.add(path)
	case e.Type().IsRegular() && (m.counts == nil || m.counts(path)):
		info, gone := e.Info()
		if gone != nil {
			return nil //nolint:nilerr // as above
		}
		if m.total += info.Size(); m.total > m.limit || m.total < 0 {
			err = fmt.Errorf("there are more than %d bytes", m.limit)
		}
	}
	return err
}
