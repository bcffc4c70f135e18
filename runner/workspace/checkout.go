package workspace

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// checkout writes entries of the record, whose paths must be free, and fills
// in their stat data. Content is what the objects hold, byte for byte.
func (t *Tree) checkout(ctx context.Context, root folder, missing []int32) error {
	var files []int32
	dirs := newMakingCursor(root, t.source.options.Owner)
	defer dirs.close()
	for _, i := range missing {
		e := &t.record.entries[i]
		if e.mode != modeSubmodule {
			files = append(files, i)
			continue
		}
		// A submodule's directory exists even when its files aren't at hand.
		dir, name, err := dirs.parent(e.path)
		if err != nil {
			return err
		}
		if err := unix.Mkdirat(dir.fd, name, 0o755); err != nil && err != unix.EEXIST {
			return &os.PathError{Op: "mkdir", Path: e.path, Err: err}
		}
		if err := errors.Join(dir.chmod(name, 0o755), give(dir, name, t.source.options.Owner)); err != nil {
			return err
		}
	}
	const perWorker = 300 // below this a second process costs more than it brings
	workers := min(runtime.GOMAXPROCS(0), len(files)/perWorker+1)
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		part := files[w*len(files)/workers : (w+1)*len(files)/workers]
		if len(part) > 0 {
			group.Go(func() error { return t.checkoutPart(ctx, root, part) })
		}
	}
	return group.Wait()
}

// checkoutPart writes some entries with the contents from one git process.
func (t *Tree) checkoutPart(ctx context.Context, root folder, part []int32) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blobs, err := t.base.git().start(ctx, "cat-file", "--batch", "--buffer")
	if err != nil {
		return err
	}
	asked := make(chan error, 1)
	go func() {
		for _, i := range part {
			fmt.Fprintf(blobs.in, "%x\n", t.record.entries[i].oid) // an error sticks to the writer
		}
		asked <- blobs.finishInput()
	}()
	defer func() {
		if err != nil {
			cancel() // stop a process that would go on writing
		}
		<-asked
		if closeErr := blobs.close(); err == nil {
			err = closeErr
		}
	}()
	owner := t.source.options.Owner
	w := &fileWriter{dirs: newMakingCursor(root, owner), blobs: blobs.out, owner: owner, since: t.record.header.Since}
	defer w.dirs.close()
	for _, i := range part {
		if err := w.write(&t.record.entries[i]); err != nil {
			return fmt.Errorf("write %q: %w", t.record.entries[i].path, err)
		}
	}
	return nil
}

// fileWriter creates files from the output of `git cat-file --batch`.
type fileWriter struct {
	dirs  *cursor
	blobs *bufio.Reader
	since int64 // modification time of what the slot holds for the first time
	owner *Owner
}

// times returns the access and modification times of an entry: those it was
// recorded with, so that they don't tell what an earlier run changed.
func (w *fileWriter) times(e *entry) []unix.Timespec {
	t := unix.NsecToTimespec(w.since)
	if e.stat.mtimeSec != 0 {
		t = unix.Timespec{Sec: int64(e.stat.mtimeSec), Nsec: int64(e.stat.mtimeNsec)}
	}
	return []unix.Timespec{t, t}
}

func (w *fileWriter) write(e *entry) error {
	size, err := readBlobHeader(w.blobs, e.oid)
	if err != nil {
		return err
	}
	dir, name, err := w.dirs.parent(e.path)
	if err != nil {
		return err
	}
	if e.mode == modeSymlink {
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

func (w *fileWriter) symlink(dir folder, name string, size int64, e *entry) error {
	if size <= 0 || size >= unix.PathMax {
		return &Error{Code: CodeUnsafePath, Param: e.path,
			Message: fmt.Sprintf("the target of the link %.200q has %d bytes", e.path, size)}
	}
	target := make([]byte, size)
	if _, err := io.ReadFull(w.blobs, target); err != nil {
		return err
	}
	if err := unix.Symlinkat(string(target), dir.fd, name); err != nil {
		return &os.LinkError{Op: "symlink", New: e.path, Err: err}
	}
	if err := give(dir, name, w.owner); err != nil {
		return err
	}
	if err := unix.UtimesNanoAt(dir.fd, name, w.times(e), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "utimes", Path: e.path, Err: err}
	}
	st, err := dir.lstat(name)
	e.stat = statOf(&st)
	return err
}

func (w *fileWriter) file(dir folder, name string, size int64, e *entry) error {
	perm := uint32(0o644)
	if e.mode == modeExecutable {
		perm = 0o755
	}
	fd, err := unix.Openat(dir.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if err != nil {
		return &os.PathError{Op: "create", Path: e.path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := io.CopyN(descriptor(fd), w.blobs, size); err != nil {
		return err
	}
	if w.owner != nil {
		if err := unix.Fchown(fd, w.owner.UID, w.owner.GID); err != nil {
			return &os.PathError{Op: "chown", Path: e.path, Err: err}
		}
	}
	if err := unix.Fchmod(fd, perm); err != nil { // whatever the umask
		return &os.PathError{Op: "chmod", Path: e.path, Err: err}
	}
	if err := unix.UtimesNanoAt(dir.fd, name, w.times(e), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "utimes", Path: e.path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: e.path, Err: err}
	}
	e.stat = statOf(&st)
	return nil
}

// descriptor writes to a file without the bookkeeping of os.File, of which
// tens of thousands would be made.
type descriptor int

func (d descriptor) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := unix.Write(int(d), p[written:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return written, os.NewSyscallError("write", err)
		}
		written += n
	}
	return written, nil
}
