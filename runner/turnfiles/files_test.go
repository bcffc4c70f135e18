package turnfiles

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// Lines come whole, also those that are written in pieces while they are read;
// too long ones are left out and cost no memory.
func TestLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("x", responses.MaxResponse+1)
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "log"), []byte("one\n\n"+long+"\ntwo\nthr"), 0o600))
	turn, err := OpenCollected(dir)
	expect.NoError(t, err)
	defer turn.Close()
	asked := 0
	more := func() bool { // the writer goes on once, between two looks
		asked++
		if asked == 2 {
			f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_APPEND, 0)
			expect.NoError(t, err)
			defer f.Close()
			if _, err := f.WriteString("ee\nhalf"); err != nil {
				t.Fatal(err)
			}
		}
		return asked < 2
	}
	var got []string
	for line, err := range turn.Lines(t.Context(), "log", more) {
		expect.NoError(t, err)
		got = append(got, string(line))
	}
	if want := []string{"one", "", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for range turn.Lines(t.Context(), "absent", func() bool { return false }) {
		t.Error("a file that is not there has lines")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for line, err := range turn.Lines(ctx, "log", func() bool { return true }) { // ends although there could be more
		if _ = line; err != nil {
			t.Fatal(err)
		}
	}
}

// A container wrote the files: nothing but a regular one is opened, and nothing
// outside.
func TestLinesOfHostileFiles(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	expect.NoError(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	for name, target := range map[string]string{"link": secret, "inner": "log",
		"up": "../" + filepath.Base(outside) + "/secret"} {
		expect.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	expect.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	turn, err := OpenCollected(dir)
	expect.NoError(t, err)
	defer turn.Close()
	for _, name := range []string{"link", "up", "pipe", ".", "../" + filepath.Base(outside) + "/secret"} {
		for line, err := range turn.Lines(t.Context(), name, func() bool { return false }) {
			if err == nil {
				t.Errorf("%s has the line %q", name, line)
			}
		}
	}
}
