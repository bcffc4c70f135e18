package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"holon/internal/diskusage"
	"holon/internal/procfs"
)

// Usage returns how many bytes of the disk directories of the container take, and the files of their disks that
// processes hold open without a name. What cannot be measured, because its owner closed a directory in it, is named.
func (c *Client) Usage(ctx context.Context, dirs []string) (bytes int64, closed []string, err error) {
	err = c.ask(ctx, "measure files", func() error {
		err := errors.Join(c.conn.write(request{Op: opUsage}), c.conn.writeNames(dirs, line{}), c.conn.out.Flush())
		if err != nil {
			return err
		}
		end, err := c.conn.readAll(func(l line) error {
			if closed = append(closed, string(l.Name)); len(closed) > len(dirs) {
				return &BrokenError{errors.New("more directories than were asked for")}
			}
			return nil
		})
		bytes = end.Size
		return err
	})
	return bytes, closed, err
}

func (s *server) usage(ctx context.Context, dirs []string) error {
	var sum int64
	var closed []string
	byOwner := make(map[owner][]string)
	infos := make(map[owner]os.FileInfo)
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil {
			return s.conn.write(line{End: true, Error: err.Error()})
		}
		o := ownerOf(info)
		byOwner[o], infos[o] = append(byOwner[o], dir), info
	}
	for o, list := range byOwner {
		n, some, err := usageAs(ctx, infos[o], list)
		if err != nil {
			return s.conn.write(line{End: true, Error: err.Error()})
		}
		sum, closed = sum+n, append(closed, some...)
	}
	return s.conn.writeNames(closed, line{Size: sum})
}

// usageAs measures directories with the rights of the owner of one.
func usageAs(ctx context.Context, one os.FileInfo, dirs []string) (sum int64, closed []string, err error) {
	held, err := newRights(one)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, held.close()) }()
	for _, dir := range dirs {
		n, skipped, err := diskusage.Dir(ctx, dir)
		switch {
		case err != nil:
			return 0, nil, fmt.Errorf("measure %s: %w", dir, err)
		case skipped:
			closed = append(closed, dir)
		default:
			sum += n
		}
	}
	var processes []string
	for _, pid := range procfs.PIDs() {
		processes = append(processes, filepath.Join("/proc", strconv.Itoa(pid)))
	}
	return sum + diskusage.Unlinked(processes, dirs), closed, nil
}
