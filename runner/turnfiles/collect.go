package turnfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"holon/internal/roots"
	"holon/internal/visible"
	"holon/responses/turns"
)

// Bounds of what is taken from a turn directory. Files beyond them are left out with a warning, so that the
// rest of a run can always be recorded. MaxCollect is in bytes.
const (
	MaxCollect      = 4 << 30
	maxCollectFiles = 20_000
	maxCollectDepth = 32
)

// Collect copies the files of a turn of a session to the directory results of the host, within bounds, and returns what
// was left out and why. limit is how many bytes are taken in addition to the turn's own record; 0 means MaxCollect. The
// error means that the host's side failed. Those that follow from its journal are made by Completion.
func Collect(ctx context.Context, sessionDir, turnID, results string, limit int64) (warnings []string, err error) {
	output, err := OpenOutput(sessionDir)
	if err != nil {
		return []string{"the container's output cannot be opened: " + visible.OneLine(err.Error(), 200)}, nil
	}
	defer output.Close()
	src, err := roots.OpenOwn(output, "turns/"+turnID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no turn was accepted
	}
	if err != nil {
		return []string{"the turn directory cannot be opened: " + visible.OneLine(err.Error(), 200)}, nil
	}
	defer src.Close()
	to, err := os.OpenRoot(results)
	if err != nil {
		return nil, fmt.Errorf("open the output directory: %w", err)
	}
	defer to.Close()
	c := &collector{src: src, dst: to, limit: MaxCollect}
	for _, name := range turnNames { // first: no file of a command's may crowd them out
		if err := c.own(ctx, name, false); err != nil {
			return c.warnings, fmt.Errorf("collect the turn directory: %w", err)
		}
	}
	if limit > 0 {
		c.limit = min(c.bytes+limit, MaxCollect)
	}
	for _, dir := range []string{turns.ToolsDir, turns.ArtifactsDir} {
		if err := c.own(ctx, dir, true); err != nil {
			return c.warnings, fmt.Errorf("collect the turn directory: %w", err)
		}
	}
	return c.warnings, nil
}

// CollectResponses copies the responses that agentd stored in a session to the directory to, which it makes, within
// bounds, and returns what was left out and why. A session without any is not an error, and nothing is made.
func CollectResponses(ctx context.Context, sessionDir, to string) (warnings []string, err error) {
	src, err := openState(sessionDir, turns.ResponsesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the session's state: %w", err)
	}
	defer src.Close()
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, fmt.Errorf("keep the conversation: %w", err)
	}
	dst, err := os.OpenRoot(to)
	if err != nil {
		return nil, fmt.Errorf("keep the conversation: %w", err)
	}
	defer dst.Close()
	c := &collector{src: src, dst: dst, limit: MaxCollect}
	if err := c.folder(ctx, ".", 0); err != nil {
		return c.warnings, fmt.Errorf("keep the conversation: %w", err)
	}
	return c.warnings, nil
}

// openState opens a directory of agentd's store: turns.ResponsesDir or turns.OpenDir.
func openState(sessionDir, name string) (*os.Root, error) {
	state := filepath.Join(sessionDir, "state")
	if err := roots.Reopen(state); err != nil {
		return nil, err
	}
	root, err := roots.Open(state)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return roots.OpenOwn(root, name)
}

// turnNames are the files of the turn's own record. The others follow from its journal.
var turnNames = []string{turns.RecordFile, turns.JournalFile, turns.FailureFile}

type collector struct {
	src, dst *os.Root
	links    map[inode]string // files with several names, by where the first was
	files    int
	bytes    int64
	limit    int64
	warnings []string
}

type inode struct{ device, number uint64 }

func (c *collector) warn(format string, args ...any) {
	const most = 50
	if len(c.warnings) < most {
		c.warnings = append(c.warnings, visible.OneLine(fmt.Sprintf(format, args...), 300))
	}
}

func (c *collector) folder(ctx context.Context, dir string, depth int) error {
	if depth > maxCollectDepth {
		c.warn("%q is nested too deep and was left out", dir)
		return nil
	}
	var d *os.File
	err := roots.ReopenIn(c.src, dir)
	if err == nil {
		d, err = c.src.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		c.warn("%q cannot be read and was left out", dir)
		return nil
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if c.files++; c.files > maxCollectFiles {
				c.warn("the turn left more than %d files; the rest was left out", maxCollectFiles)
				return nil
			}
			if err := c.entry(ctx, filepath.Join(dir, e.Name()), e, depth); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end, or a folder that cannot be read further
		}
	}
}

func (c *collector) entry(ctx context.Context, path string, e fs.DirEntry, depth int) error {
	switch {
	case e.IsDir():
		if err := c.dst.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return c.folder(ctx, path, depth+1)
	case e.Type().IsRegular():
		return c.file(path)
	}
	c.warn("%q is a link or a special file and was left out", path)
	return nil
}

// own takes what the turn has under a name of agentd's, if it is there.
func (c *collector) own(ctx context.Context, name string, dir bool) error {
	info, err := c.src.Lstat(name)
	if err != nil || info.IsDir() != dir {
		return nil
	}
	return c.entry(ctx, name, fs.FileInfoToDirEntry(info), 0)
}

// file copies one file. An error means that the host's side failed.
func (c *collector) file(path string) error {
	in, err := openReadable(c.src, path)
	if err != nil {
		c.warn("%q cannot be read and was left out", path)
		return nil
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() {
		c.warn("%q is not a regular file and was left out", path)
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		if c.link(inode{uint64(st.Dev), st.Ino}, path) {
			return nil
		}
	}
	if c.bytes += info.Size(); c.bytes > c.limit || c.bytes < 0 {
		c.bytes -= info.Size()
		c.warn("%q was left out: the turn's files have more than %s", path, visible.Size(c.limit))
		return nil
	}
	if err := c.dst.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that was broken off
		return err
	}
	out, err := c.dst.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copyData(out, in, info.Size()), out.Close())
}

// link gives a file that was taken under another name this one too, so that it is
// neither copied nor counted twice. done is false for the first of its names.
func (c *collector) link(file inode, path string) (done bool) {
	first, known := c.links[file]
	var err error
	switch {
	case !known:
		if c.links == nil {
			c.links = map[inode]string{}
		}
		c.links[file] = path
		return false
	case slices.Contains(turnNames, first):
		err = errors.ErrUnsupported // the host changes the record that it took
	default:
		_ = c.dst.Remove(path) // of an attempt that was broken off
		err = c.dst.Link(first, path)
	}
	if err != nil {
		c.warn("%q was left out: it is the same file as %q", path, first)
	}
	return true
}

// copyData copies the first size bytes of a file. Holes stay holes: a container
// that claims gigabytes without writing them costs the host none either.
func copyData(out, in *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, err := in.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && data >= size { // nothing but a hole is left
			break
		}
		if err != nil {
			return fmt.Errorf("find data: %w", err)
		}
		if at, err = in.Seek(data, unix.SEEK_HOLE); err != nil {
			return fmt.Errorf("find the end of data: %w", err)
		}
		at = min(at, size)
		if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(in, data, at-data)); err != nil {
			return err
		}
	}
	return out.Truncate(size)
}
