package transfer

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"holon/internal/roots"
)

// file makes a regular file, unless there is one with the same content. The time of a tar may have whole seconds, so
// that only the content tells whether a file has changed.
func (u *unpacking) file(name string, there fs.FileInfo, h *tar.Header, content io.Reader) error {
	if there != nil && there.Mode().IsRegular() && there.Size() == h.Size {
		same, rest, err := u.compare(name, content)
		if err != nil {
			return err
		}
		if same {
			if there.ModTime().Truncate(time.Second).Equal(h.ModTime.Truncate(time.Second)) {
				return nil
			}
			return u.root.Chtimes(name, h.ModTime, h.ModTime)
		}
		content = rest
	}
	temporary := path.Join(path.Dir(name), ".holon-"+rand.Text())
	out, err := u.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	err = errors.Join(err, out.Close(), u.root.Chtimes(temporary, h.ModTime, h.ModTime))
	if err == nil && there != nil && there.IsDir() {
		err = u.root.RemoveAll(name)
	}
	if err == nil {
		err = u.root.Rename(temporary, name)
	}
	if err != nil {
		err = errors.Join(err, u.root.RemoveAll(temporary))
	}
	return err
}

// compare reads content and the file beside it. Where they differ, rest is all of content again, for what was the same
// is read from the file.
func (u *unpacking) compare(name string, content io.Reader) (same bool, rest io.Reader, err error) {
	file, _, err := roots.OpenFile(u.root, name)
	if err != nil {
		return false, content, nil //nolint:nilerr // the file is replaced
	}
	defer file.Close()
	var equal int64
	theirs, ours := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(content, theirs)
		if n == 0 && errors.Is(err, io.EOF) {
			return true, nil, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil, err
		}
		if _, err := io.ReadFull(file, ours[:n]); err != nil || !bytes.Equal(theirs[:n], ours[:n]) {
			head, err := u.root.Open(name)
			if err != nil {
				return false, nil, err
			}
			return false, io.MultiReader(&prefix{head, equal}, bytes.NewReader(theirs[:n]), content), nil
		}
		equal += int64(n)
	}
}

// prefix reads the first bytes of a file, and closes it at their end.
type prefix struct {
	file *os.File
	left int64
}

func (p *prefix) Read(buf []byte) (int, error) {
	if p.left == 0 {
		p.file.Close()
		return 0, io.EOF
	}
	n, err := p.file.Read(buf[:min(int64(len(buf)), p.left)])
	p.left -= int64(n)
	return n, err
}
