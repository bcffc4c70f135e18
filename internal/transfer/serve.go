package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/procfs"
	"holon/internal/roots"
)

// Serve answers a Client in the container until the connection ends. As root without other capabilities than to become
// others it reads and writes with the rights of those whose files they are.
func Serve(ctx context.Context, rw io.ReadWriter) error {
	s := &server{conn: newConn(rw, nil), dirs: make(map[string]*rights), listed: make(map[string]Listing)}
	for {
		var r request
		err := s.conn.read(&r)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = s.answer(ctx, r)
		}
		if err == nil {
			err = s.conn.out.Flush()
		}
		if err != nil {
			return fmt.Errorf("move files: %w", err)
		}
	}
}

type server struct {
	conn   conn
	dirs   map[string]*rights // of those that were listed
	listed map[string]Listing // the last list of each that the client got
}

// maxListed is how many entries of a directory are kept, so that only those that differ are sent the next time.
const maxListed = 200_000

func (s *server) answer(ctx context.Context, r request) (err error) {
	if r.Op != opUsage && !filepath.IsAbs(r.Dir) {
		return fmt.Errorf("%.200q is not an absolute path", r.Dir)
	}
	switch r.Op {
	case opList:
		return s.list(ctx, r)
	case opGet, opPut, opUsage:
		var names []string
		if _, err := s.conn.readAll(func(l line) error {
			names = append(names, string(l.Name))
			return nil
		}); err != nil {
			return err
		}
		if r.Op == opUsage {
			return s.usage(ctx, names)
		}
		held, err := s.rights(r.Dir)
		if err != nil {
			return err
		}
		if r.Op == opGet {
			return errors.Join(s.get(r.Dir, names, held), held.close())
		}
		return errors.Join(s.put(ctx, r, names, held), held.close())
	}
	return fmt.Errorf("unknown request %.40q", r.Op)
}

// rights are those that are known of the directory, and those of its owner before it was listed.
func (s *server) rights(dir string) (*rights, error) {
	if held, known := s.dirs[dir]; known {
		return held, nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	held, err := newRights(info)
	s.dirs[dir] = held
	return held, err
}

// list says first whether processes of the user run: what does not run then writes nothing later.
func (s *server) list(ctx context.Context, r request) error {
	quiet := r.User > 0 && !runs(r.User)
	delete(s.dirs, r.Dir)
	held, err := s.rights(r.Dir)
	if err != nil {
		return err
	}
	names := make([]string, len(r.Except))
	for i, name := range r.Except {
		names[i] = string(name)
	}
	l := newLister(names, r.Limit)
	l.rights = held
	if err = held.take("."); err == nil {
		err = l.list(ctx, r.Dir)
	}
	end := line{End: true, Quiet: quiet && !l.closed}
	if err = errors.Join(err, held.close()); err != nil {
		end.Error = err.Error()
	}
	last, known := s.listed[r.Dir]
	end.Whole = !known
	for name, e := range l.found {
		if was, same := last[name]; same && was == e {
			continue
		}
		if err := s.conn.write(lineOf(name, e)); err != nil {
			return err
		}
	}
	for name := range last {
		if _, there := l.found[name]; there {
			continue
		}
		if err := s.conn.write(line{Name: []byte(name), Gone: true}); err != nil {
			return err
		}
	}
	if delete(s.listed, r.Dir); end.Error == "" && len(l.found) <= maxListed {
		s.listed[r.Dir] = l.found
	}
	return s.conn.write(end)
}

// runs reports whether a process of a user runs.
func runs(uid int) bool {
	for _, pid := range procfs.PIDs() {
		status, err := procfs.ReadFile(fmt.Sprintf("/proc/%d/status", pid), 8<<10)
		if err != nil || strings.Contains(string(status), "\nState:\tZ") {
			continue
		}
		_, after, _ := strings.Cut(string(status), "\nUid:")
		ids, _, _ := strings.Cut(after, "\n")
		if slices.Contains(strings.Fields(ids), fmt.Sprint(uid)) {
			return true
		}
	}
	return false
}

// get writes a tar with files of a directory. What is gone or cannot be read is left out.
func (s *server) get(dir string, names []string, held *rights) error {
	if err := held.take("."); err != nil {
		return err
	}
	root, err := roots.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tw := tar.NewWriter(s.conn.out)
	for _, name := range names {
		if err := held.take(name); err != nil {
			return err
		}
		if err := packNow(tw, root, name); err != nil {
			return err
		}
	}
	return tw.Close()
}

// packNow writes a file as it is now. That it was written meanwhile shows by its time.
func packNow(tw *tar.Writer, root *os.Root, name string) error {
	e, err := openEntry(root, name)
	if err != nil || e == nil {
		return nil //nolint:nilerr // it is gone, or cannot be read
	}
	_, err = e.write(tw, path.Join(ownTarget, name), true)
	return err
}

// put removes files and makes those of a tar.
func (s *server) put(ctx context.Context, r request, removed []string, held *rights) (err error) {
	if err := held.take("."); err != nil {
		return err
	}
	u, err := open(r.Dir, Limits{})
	if err != nil {
		return err
	}
	defer u.root.Close()
	u.rights, u.chown = held, r.Owners && held != nil
	for _, name := range removed {
		err = errors.Join(err, held.take(path.Dir(name)), u.root.RemoveAll(name))
	}
	if err == nil {
		err = u.takeAll(ctx, s.conn.in)
	}
	if err != nil {
		return errors.Join(s.conn.write(line{End: true, Error: err.Error()}), s.conn.out.Flush(), err)
	}
	for name := range u.seen {
		if err := held.take(path.Dir(name)); err != nil {
			return err
		}
		info, err := u.root.Lstat(name)
		if name == "." || err != nil {
			continue // removed meanwhile
		}
		e := entryOf(info)
		if info.Mode()&fs.ModeSymlink != 0 {
			e.Link, _ = u.root.Readlink(name)
		}
		if err := s.conn.write(lineOf(name, e)); err != nil {
			return err
		}
	}
	return s.conn.write(line{End: true})
}
