package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"holon/test/expect"
)

// sparse makes a file of 64 GiB with a few bytes in the middle and at the end.
func sparse(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	expect.NoError(t, err)
	_, err = f.WriteAt([]byte("middle"), 32<<30)
	expect.NoError(t, err)
	_, err = f.WriteAt([]byte("end"), 64<<30-3)
	expect.NoError(t, errors.Join(err, f.Close()))
}

// isSparse checks a copy of the file.
func isSparse(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	expect.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	expect.NoError(t, err)
	expect.Equal(t, "size", info.Size(), 64<<30)
	if blocks := info.Sys().(*syscall.Stat_t).Blocks; blocks > 1<<10 {
		t.Errorf("%d blocks are taken", blocks)
	}
	for at, want := range map[int64]string{32<<30 - 1: "\x00middle\x00", 64<<30 - 4: "\x00end"} {
		got := make([]byte, len(want))
		_, err := f.ReadAt(got, at)
		expect.NoError(t, err)
		expect.Equal(t, "bytes", string(got), want)
	}
}

// A file of holes moves as its data, both ways and in a directory that is stored.
func TestHoles(t *testing.T) {
	there, here, again := t.TempDir(), t.TempDir(), t.TempDir()
	sparse(t, filepath.Join(there, "disk"))
	expect.NoError(t, os.Truncate(filepath.Join(there, "disk"), 64<<30))
	empty := filepath.Join(there, "empty")
	expect.NoError(t, errors.Join(os.WriteFile(empty, nil, 0o600), os.Truncate(empty, 1<<30)))
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(context.Background(), far) }()
	c := NewClient(near)
	limits := Limits{Bytes: 1 << 20}
	got, err := c.Get(t.Context(), there, here, []string{"disk", "empty"}, limits)
	expect.NoError(t, err)
	expect.Equal(t, "files", len(got), 2)
	isSparse(t, filepath.Join(here, "disk"))
	_, err = c.Put(t.Context(), again, here, nil, []string{"disk"})
	expect.NoError(t, err)
	isSparse(t, filepath.Join(again, "disk"))
	expect.NoError(t, c.Close())
	<-served

	var stored bytes.Buffer
	tw := tar.NewWriter(&stored)
	expect.NoError(t, errors.Join(PackOwn(t.Context(), tw, there), tw.Close()))
	restored := t.TempDir()
	expect.NoError(t, Unpack(t.Context(), &stored, restored, limits, nil))
	isSparse(t, filepath.Join(restored, "disk"))
	info, err := os.Stat(filepath.Join(restored, "empty"))
	expect.NoError(t, err)
	expect.Equal(t, "size of a hole", info.Size(), 1<<30)
}

// An engine, which would fill the holes, is not given such a file.
func TestLateHoles(t *testing.T) {
	dir := t.TempDir()
	sparse(t, filepath.Join(dir, "disk"))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 2<<20), 0o600))
	var sent bytes.Buffer
	tw := tar.NewWriter(&sent)
	expect.NoError(t, errors.Join(Pack(t.Context(), tw, dir, "/top", nil, true), tw.Close()))
	to := t.TempDir()
	expect.NoError(t, Unpack(t.Context(), &sent, to, Limits{}, nil))
	list, err := List(t.Context(), to, nil, 0)
	expect.NoError(t, err)
	_, there := list["disk"]
	expect.Equal(t, "the one with holes is sent", there, false)
	expect.Equal(t, "files", len(list), 1)
}

func TestReadExtents(t *testing.T) {
	for record, valid := range map[string]bool{
		"10 0 3 5 2": true, "5": false, "10 0 5": true, "10 5 5": true, "10 6 5": false, "10 5 3 0 2": false, "10 0 3 2 2": false,
		"10 0 2": false, "10 0 5 1": false, "": false, "10 -1 5": false, "10 0 9223372036854775807": false, "x 0 5": false,
		"9223372036854775807 9223372036854775802 5": true,
	} {
		if _, _, err := readExtents(record, 5); (err == nil) != valid {
			t.Errorf("%q: %v", record, err)
		}
	}
}

func FuzzExtents(f *testing.F) {
	f.Add("10 0 3 5 2", int64(5))
	f.Add("9223372036854775807 1 1", int64(1))
	f.Fuzz(func(t *testing.T, record string, sum int64) {
		data, size, err := readExtents(record, sum)
		var at int64
		for _, d := range data {
			if d.at < at || d.at+d.size > size || d.at+d.size < d.at {
				t.Fatalf("%q: %v in %d bytes, %v", record, data, size, err)
			}
			at = d.at + d.size
		}
	})
}
