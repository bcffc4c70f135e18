package pod

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"holon/internal/roots"
)

// Binary is where Prepare puts agentd, as a path in the volume. What the host sends as a hard link to it is a copy.
const Binary = "bin/agentd"

// Prepare makes what the other containers mount of a volume: files, and directories where a name ends in "/".
func Prepare(volume string, names []string) error {
	for _, name := range names {
		at := filepath.Join(volume, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil && strings.HasSuffix(name, "/") {
			err = os.MkdirAll(at, 0o755)
		} else if err == nil {
			err = os.WriteFile(at, nil, 0o755)
		}
		if err != nil {
			return fmt.Errorf("prepare the volume: %w", err)
		}
	}
	to := filepath.Join(volume, Binary)
	err := os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		err = copyFile("/proc/self/exe", to)
	}
	if err != nil {
		return fmt.Errorf("put agentd into the volume: %w", err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

// Unpack prints the SHA-256 of agentd and a newline, and then reads a tar whose names are paths in the volume. Files
// are written in place, for another container may have mounted them already. As root it gives them to the owners that
// the tar names.
func Unpack(ctx context.Context, volume string, in io.Reader, out io.Writer) error {
	err := printSum(filepath.Join(volume, Binary), out)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer root.Close()
	var dirs []*tar.Header // which get their permissions once they are full
	tr := tar.NewReader(in)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return setModes(root, dirs)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("read what the host sends: %w", err)
		}
		if err := unpack(root, path.Clean(h.Name), h, tr); err != nil {
			return fmt.Errorf("write what the host sends: %w", err)
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, h)
		}
	}
}

func setModes(root *os.Root, dirs []*tar.Header) error {
	for _, h := range slices.Backward(dirs) {
		if err := root.Chmod(path.Clean(h.Name), h.FileInfo().Mode().Perm()); err != nil {
			return fmt.Errorf("write what the host sends: %w", err)
		}
	}
	return nil
}

func printSum(file string, out io.Writer) error {
	in, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read agentd: %w", err)
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return fmt.Errorf("read agentd: %w", err)
	}
	_, err = fmt.Fprintln(out, hex.EncodeToString(sum.Sum(nil)))
	return err
}

func unpack(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		err = root.MkdirAll(name, 0o700)
	case tar.TypeSymlink:
		err = root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		var agentd *os.File
		if agentd, err = root.Open(Binary); err == nil {
			err = write(root, name, agentd)
			agentd.Close()
		}
	case tar.TypeReg:
		err = write(root, name, content)
	default:
		return nil
	}
	if err == nil && os.Geteuid() == 0 {
		err = root.Lchown(name, h.Uid, h.Gid)
	}
	if err != nil || h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeDir {
		return err
	}
	err = root.Chmod(name, h.FileInfo().Mode().Perm())
	if err == nil && h.Typeflag == tar.TypeReg {
		err = root.Chtimes(name, h.ModTime, h.ModTime)
	}
	return err
}

func write(root *os.Root, name string, content io.Reader) error {
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

// Pack writes a directory as a tar, whose names begin with one directory. The program may change it meanwhile: what is
// gone is left out, a link is never followed. Sockets, pipes and devices are left out.
func Pack(ctx context.Context, dir string, out io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	defer root.Close()
	tw := tar.NewWriter(out)
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = pack(tw, root, name)
		}
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil
		}
		return err
	})
	if err == nil {
		err = tw.Close()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	return nil
}

func pack(tw *tar.Writer, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	permit(root, name, info)
	var link string
	var file *os.File
	switch info.Mode().Type() {
	case 0:
		if file, _, err = roots.OpenFile(root, name); err != nil { // what is no file any more is an error
			return err
		}
		defer file.Close()
	case fs.ModeSymlink:
		if link, err = root.Readlink(name); err != nil {
			return err
		}
	case fs.ModeDir:
	default:
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = path.Join("files", name), "", "", tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		h.Uid, h.Gid = int(st.Uid), int(st.Gid)
	}
	if err := tw.WriteHeader(h); err != nil || file == nil {
		return err
	}
	_, err = io.CopyN(tw, file, h.Size)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s became shorter while it was read", name)
	}
	return err
}

// permit lets this process read what the program of the same user has closed. Root needs no such permission.
func permit(root *os.Root, name string, info fs.FileInfo) {
	need := fs.FileMode(0o400)
	if info.IsDir() {
		need = 0o700
	}
	if mode := info.Mode(); os.Geteuid() != 0 && mode.Type()&^fs.ModeDir == 0 && mode.Perm()&need != need {
		_ = root.Chmod(name, mode.Perm()|need) // that it cannot be read shows when it is
	}
}
