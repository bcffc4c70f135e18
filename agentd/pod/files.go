package pod

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"holon/internal/transfer"
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

// Unpack prints the SHA-256 of agentd and a newline, and then reads a tar whose names are paths in the volume, beneath
// one directory.
func Unpack(ctx context.Context, volume string, in io.Reader, out io.Writer) error {
	err := printSum(filepath.Join(volume, Binary), out)
	if err != nil {
		return err
	}
	return transfer.Place(ctx, in, volume, Binary)
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

// Pack writes a directory as a tar, whose names begin with one directory.
func Pack(ctx context.Context, dir string, out io.Writer) error {
	tw := tar.NewWriter(out)
	if err := transfer.PackOwn(ctx, tw, dir); err != nil {
		return err
	}
	return tw.Close()
}
