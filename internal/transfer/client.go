package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Client moves single files between directories of the host and of a container, of which it believes nothing. One that
// broke off is a *BrokenError. After an error it is of no use any more. Its methods are called one at a time.
type Client struct {
	conn   conn
	closer io.Closer
	watch  *time.Timer        // ends a connection that stalls
	listed map[string]Listing // the last list of each directory
}

// stallTime is how long a connection may carry nothing while an answer is awaited, such as that to a container that is
// paused.
const stallTime = time.Minute

// NewClient returns a client of Serve at the other end of rw.
func NewClient(rw io.ReadWriteCloser) *Client {
	watch := time.AfterFunc(stallTime, func() { rw.Close() })
	watch.Stop()
	return &Client{newConn(rw, watch), rw, watch, make(map[string]Listing)}
}

// Close ends the connection, and a call that waits for it.
func (c *Client) Close() error { return c.closer.Close() }

// ask calls do, which sends requests and reads their answers, until ctx ends.
func (c *Client) ask(ctx context.Context, what string, do func() error) error {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	c.watch.Reset(stallTime)
	defer c.watch.Stop()
	err := do()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &BrokenError{err}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Directory is one of the container's, without the paths Except in it.
type Directory struct {
	Path   string
	Except []string
}

// List lists directories of the container as the function List does, with at most limit files in each. quiet: no
// process of the user ran when it began, and all of them could be read. What is found is not to be changed.
func (c *Client) List(ctx context.Context, dirs []Directory, limit int64, user int) (found []Listing, quiet bool,
	err error) {
	quiet = true
	err = c.ask(ctx, "list files", func() error {
		for _, d := range dirs { // all at once, to wait for one answer
			r := request{Op: opList, Dir: d.Path, Limit: limit, User: user}
			for _, name := range d.Except {
				r.Except = append(r.Except, []byte(name))
			}
			if err := c.conn.write(r); err != nil {
				return err
			}
		}
		if err := c.conn.out.Flush(); err != nil {
			return err
		}
		for _, d := range dirs {
			l, still, err := c.readListing(d.Path, limit)
			if err != nil {
				return fmt.Errorf("%s: %w", d.Path, err)
			}
			found, quiet = append(found, l), quiet && still
		}
		return nil
	})
	return found, quiet, err
}

func (c *Client) readListing(dir string, limit int64) (found Listing, quiet bool, err error) {
	found = make(Listing)
	gone := make(map[string]bool)
	end, err := c.conn.readAll(func(l line) error {
		name := string(l.Name)
		if l.Gone {
			gone[name] = true
		} else if filepath.IsLocal(name) && filepath.Clean(name) == name {
			found[name] = l.entry()
		}
		if limit > 0 && int64(len(found)+len(gone)) > limit {
			return &TooMuchError{Limits{Files: limit}}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	if !end.Whole {
		for name, e := range c.listed[dir] {
			if _, differs := found[name]; !differs && !gone[name] {
				found[name] = e
			}
		}
	}
	if limit > 0 && int64(len(found)) > limit {
		return nil, false, &TooMuchError{Limits{Files: limit}}
	}
	c.listed[dir] = found
	return found, end.Quiet, nil
}

// Get brings files of the host's directory to up to date with those of the container's, in this order, and returns
// which the container had, also with an error. Directories come before what is in them.
func (c *Client) Get(ctx context.Context, dir, to string, names []string, limits Limits) (got Listing, err error) {
	u, err := open(to, limits)
	if err != nil {
		return nil, err
	}
	defer u.root.Close()
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	u.keep = func(name string, _ *tar.Header) bool { return !wanted[name] } // what was not asked for
	err = c.ask(ctx, "take files of "+dir, func() error {
		err := errors.Join(c.conn.write(request{Op: opGet, Dir: dir}), c.conn.writeNames(names, line{}), c.conn.out.Flush())
		if err != nil {
			return err
		}
		return u.takeAll(ctx, c.conn.in)
	})
	got = make(Listing)
	for name := range u.seen {
		if info, err := u.root.Lstat(name); wanted[name] && err == nil {
			e := entryOf(info)
			e.Link, _ = u.root.Readlink(name)
			got[name] = e
		}
	}
	return got, err
}

// Put brings files of the container's directory up to date with those of the host's directory from, after it removed
// others, and returns what the container has then.
func (c *Client) Put(ctx context.Context, dir, from string, removed, names []string) (made Listing, err error) {
	made = make(Listing)
	err = c.ask(ctx, "give files to "+dir, func() error {
		r := request{Op: opPut, Dir: dir, Owners: os.Geteuid() == 0}
		if err := errors.Join(c.conn.write(r), c.conn.writeNames(removed, line{})); err != nil {
			return err
		}
		tw := tar.NewWriter(c.conn.out)
		root, err := os.OpenRoot(from)
		if err != nil {
			return err
		}
		defer root.Close()
		for _, name := range names {
			if err := packNow(tw, root, name); err != nil {
				return err
			}
		}
		if err := errors.Join(tw.Close(), c.conn.out.Flush()); err != nil {
			return err
		}
		_, err = c.conn.readAll(func(l line) error {
			made[string(l.Name)] = l.entry()
			return nil
		})
		return err
	})
	return made, err
}
