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
	if u.linked != "" {
		return errors.Join(u.overwrite(name, content), u.root.Chtimes(name, h.ModTime, h.ModTime))
	}
	_, holes := h.PAXRecords[holesRecord]
	if there != nil && there.Mode().IsRegular() && there.Size() == h.Size && !holes {
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
	if holes {
		err = copyExtents(out, content, h)
	} else {
		err = copyWithHoles(out, content, h.Size)
	}
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

// overwrite writes a file in place.
func (u *unpacking) overwrite(name string, content io.Reader) error {
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
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

// blockSize is the size of the blocks of which those that are all zeros are holes of a file.
const blockSize = 64 << 10

// zeroShare is the part of holes that counts: they take time, and no space.
const zeroShare = 8

// copyWithHoles writes content to a new file of a size, and leaves holes where it has nothing but zeros.
func copyWithHoles(out *os.File, content io.Reader, size int64) error {
	block := make([]byte, blockSize)
	for {
		n, err := io.ReadFull(content, block)
		switch {
		case isZero(block[:n]):
			_, seekErr := out.Seek(int64(n), io.SeekCurrent)
			if seekErr != nil {
				return seekErr
			}
		default:
			if _, writeErr := out.Write(block[:n]); writeErr != nil {
				return writeErr
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
			break
		}
		if err != nil {
			return err
		}
	}
	at, err := out.Seek(0, io.SeekCurrent)
	if err == nil && at != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, out.Truncate(size))
}

func isZero(block []byte) bool {
	return len(block) == 0 || block[0] == 0 && bytes.Equal(block[1:], block[:len(block)-1])
}

// metered counts what is read of a tar against the limits.
type metered struct {
	in io.Reader
	u  *unpacking
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if isZero(p[:n]) {
		m.u.bytes += int64(n / zeroShare)
	} else {
		m.u.bytes += int64(n)
	}
	if limit := m.u.limits.Bytes; limit > 0 && m.u.bytes > limit {
		return n, &TooMuchError{m.u.limits}
	}
	return n, err
}
