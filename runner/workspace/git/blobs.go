package git

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"holon/internal/folder"

	"golang.org/x/sys/unix"
)

// WriteFiles creates the files and links of entries beneath root, with the directories that they need, for owner, and
// fills in their stat data. Contents come from one git process, byte for byte. An entry without a recorded modification
// time gets since, in nanoseconds.
func (g Runner) WriteFiles(ctx context.Context, root folder.Dir, owner *folder.Owner, since int64,
	entries []*Entry) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blobs, err := g.Start(ctx, "cat-file", "--batch", "--buffer")
	if err != nil {
		return err
	}
	asked := make(chan error, 1)
	go func() {
		for _, e := range entries {
			fmt.Fprintf(blobs.In, "%x\n", e.Oid) // an error sticks to the writer
		}
		asked <- blobs.FinishInput()
	}()
	defer func() {
		if err != nil {
			cancel() // stop a process that would go on writing
		}
		<-asked
		if closeErr := blobs.Close(); err == nil {
			err = closeErr
		}
	}()
	w := &fileWriter{dirs: folder.NewCreatingCursor(root, owner), blobs: blobs.Out, owner: owner, since: since}
	defer w.dirs.Close()
	for _, e := range entries {
		if err := w.write(e); err != nil {
			return fmt.Errorf("write %q: %w", e.Path, err)
		}
	}
	return nil
}

// fileWriter creates files from the output of `git cat-file --batch`.
type fileWriter struct {
	dirs  *folder.Cursor
	blobs *bufio.Reader
	since int64
	owner *folder.Owner
}

// times returns the access and modification times of an entry: those it was
// recorded with, so that they don't tell what an earlier run changed.
func (w *fileWriter) times(e *Entry) []unix.Timespec {
	t := unix.NsecToTimespec(w.since)
	if e.Stat.MtimeSec != 0 {
		t = unix.Timespec{Sec: int64(e.Stat.MtimeSec), Nsec: int64(e.Stat.MtimeNsec)}
	}
	return []unix.Timespec{t, t}
}

func (w *fileWriter) write(e *Entry) error {
	size, err := readBlobHeader(w.blobs, e.Oid)
	if err != nil {
		return err
	}
	dir, name, err := w.dirs.Parent(e.Path)
	if err != nil {
		return err
	}
	if e.Mode == ModeSymlink {
		err = w.symlink(dir, name, size, e)
	} else {
		err = w.file(dir, name, size, e)
	}
	if err != nil {
		return err
	}
	_, err = w.blobs.Discard(1) // the newline after the content
	return err
}

// readBlobHeader reads "<id> blob <size>\n".
func readBlobHeader(blobs *bufio.Reader, oid string) (int64, error) {
	line, err := blobs.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("read object %x: %w", oid, err)
	}
	fields := strings.Fields(line)
	if len(fields) == 2 && fields[1] == "missing" {
		return 0, &Error{Code: CodeMissingObjects, Message: fmt.Sprintf("the repository lacks the object %x", oid),
			Hint: "fetch it; a partial clone needs `git fetch --refetch --no-filter`"}
	}
	if len(fields) != 3 || fields[0] != hex.EncodeToString([]byte(oid)) || fields[1] != "blob" {
		return 0, fmt.Errorf("read object %x: git answered %.100q", oid, line)
	}
	return strconv.ParseInt(fields[2], 10, 64)
}

func (w *fileWriter) symlink(dir folder.Dir, name string, size int64, e *Entry) error {
	if size <= 0 || size >= unix.PathMax {
		return &Error{Code: CodeUnsafePath, Param: e.Path,
			Message: fmt.Sprintf("the target of the link %.200q has %d bytes", e.Path, size)}
	}
	target := make([]byte, size)
	if _, err := io.ReadFull(w.blobs, target); err != nil {
		return err
	}
	if err := unix.Symlinkat(string(target), dir.FD, name); err != nil {
		return &os.LinkError{Op: "symlink", New: e.Path, Err: err}
	}
	if err := folder.Chown(dir, name, w.owner); err != nil {
		return err
	}
	if err := unix.UtimesNanoAt(dir.FD, name, w.times(e), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "utimes", Path: e.Path, Err: err}
	}
	st, err := dir.Lstat(name)
	e.Stat = folder.StatOf(&st)
	return err
}

func (w *fileWriter) file(dir folder.Dir, name string, size int64, e *Entry) error {
	perm := uint32(0o644)
	if e.Mode == modeExecutable {
		perm = 0o755
	}
	fd, err := unix.Openat(dir.FD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if err != nil {
		return &os.PathError{Op: "create", Path: e.Path, Err: err}
	}
	file := os.NewFile(uintptr(fd), e.Path)
	defer file.Close()
	if _, err := io.CopyN(file, w.blobs, size); err != nil {
		return err
	}
	if w.owner != nil {
		if err := file.Chown(w.owner.UID, w.owner.GID); err != nil {
			return err
		}
	}
	if err := file.Chmod(os.FileMode(perm)); err != nil { // the umask must have no effect
		return err
	}
	if err := unix.UtimesNanoAt(dir.FD, name, w.times(e), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "utimes", Path: e.Path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: e.Path, Err: err}
	}
	e.Stat = folder.StatOf(&st)
	return nil
}

// ReadBlobs returns the contents of blobs, as many as fit a bound. One that is large or missing is not among them.
func (g Runner) ReadBlobs(ctx context.Context, ids []string) (_ map[string][]byte, err error) {
	left := int64(16 << 20)
	contents := make(map[string][]byte)
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return contents, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process, err := g.Start(ctx, "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if contents[id] != nil {
			continue
		}
		data, readErr := readBlob(process, id, min(left, 1<<20))
		if _, missing := readErr.(*Error); readErr != nil && !missing {
			cancel() // it may be in the middle of an answer
			_ = process.Close()
			return nil, readErr
		}
		if data != nil {
			contents[id] = data
			left -= int64(len(data))
		}
	}
	return contents, process.Close()
}

func readBlob(p *Process, id string, most int64) ([]byte, error) {
	oid, err := hex.DecodeString(id)
	if err == nil {
		_, err = fmt.Fprintln(p.In, id)
	}
	if err == nil {
		err = p.In.Flush()
	}
	if err != nil {
		return nil, err
	}
	size, err := readBlobHeader(p.Out, string(oid))
	if err != nil {
		return nil, err
	}
	if size > most {
		_, err = io.CopyN(io.Discard, p.Out, size+1)
		return nil, err
	}
	data := make([]byte, size+1)
	_, err = io.ReadFull(p.Out, data)
	return data[:size], err
}
