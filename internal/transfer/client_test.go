package transfer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"holon/internal/transfer"
	"holon/test/expect"
)

// client returns a client of what serves the other end of a connection.
func client(t *testing.T, serve func(io.ReadWriter)) *transfer.Client {
	t.Helper()
	here, there := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer there.Close()
		serve(there)
	}()
	c := transfer.NewClient(here)
	t.Cleanup(func() { _ = c.Close(); <-ended })
	return c
}

// A list has all that is there, whatever changed since the one before.
func TestList(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	c := client(t, func(rw io.ReadWriter) { _ = transfer.Serve(context.Background(), rw) })
	dirs := []transfer.Directory{{Path: dir}, {Path: other}}
	for i, change := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o600) },
		func() error { return os.Mkdir(filepath.Join(dir, "b"), 0o700) },
		func() error { return os.WriteFile(filepath.Join(dir, "b/c"), nil, 0o600) },
		func() error { return os.WriteFile(filepath.Join(other, "d"), nil, 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "a"), []byte("12"), 0o600) },
		func() error { return os.RemoveAll(filepath.Join(dir, "b")) },
		func() error { return nil },
	} {
		expect.NoError(t, change())
		got, _, err := c.List(t.Context(), dirs, 100, 0)
		expect.NoError(t, err)
		for j, d := range dirs {
			want, err := transfer.List(t.Context(), d.Path, nil, 0)
			expect.NoError(t, err)
			expect.Equal(t, fmt.Sprintf("directory %d after change %d", j, i), fmt.Sprint(got[j]), fmt.Sprint(want))
		}
	}
}

// A container may say that its list is of differences when there was none before, and has no more entries than allowed.
func TestListOfTheHostile(t *testing.T) {
	answers := make(chan string, 3)
	c := client(t, func(rw io.ReadWriter) {
		for in := bufio.NewScanner(rw); in.Scan(); {
			_, _ = io.WriteString(rw, <-answers)
		}
	})
	dirs := []transfer.Directory{{Path: "/x"}}
	answers <- `{"n":"YQ==","s":1}` + "\n" + `{"n":"Yg==","gone":true}` + "\n" + `{"end":true}` + "\n"
	got, _, err := c.List(t.Context(), dirs, 2, 0)
	expect.NoError(t, err)
	expect.Equal(t, "entries", len(got[0]), 1)
	answers <- `{"n":"Yg=="}` + "\n" + `{"n":"Li4vYw=="}` + "\n" + `{"end":true}` + "\n"
	got, _, err = c.List(t.Context(), dirs, 2, 0)
	expect.NoError(t, err)
	expect.Equal(t, "entries", len(got[0]), 2)
	answers <- `{"n":"Yw=="}` + "\n" + `{"end":true}` + "\n"
	if _, _, err := c.List(t.Context(), dirs, 2, 0); err == nil {
		t.Error("three entries were taken, of at most two")
	}
}
