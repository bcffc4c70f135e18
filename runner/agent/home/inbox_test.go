package home_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"testing"

	"holon/runner/agent/home"
	"holon/state"
	"holon/test/expect"
)

// A file that was sent is there whole, whatever the agent put in its place, and a request that comes again finds its
// own.
func TestKeep(t *testing.T) {
	none := func(string) bool { return false }
	for name, c := range map[string]struct {
		put  func(at string) error // in the place of the file, after it was kept once; nil: nothing
		want string
	}{
		"the same": {nil, "a b.tar.gz"},
		"changed":  {func(at string) error { return os.WriteFile(at, []byte("mine"), 0o600) }, "a b.tar-2.gz"},
		"longer":   {func(at string) error { return os.WriteFile(at, []byte("content and more"), 0o600) }, "a b.tar-2.gz"},
		"a link":   {func(at string) error { return os.Symlink("/etc/hostname", at) }, "a b.tar-2.gz"},
		"a folder": {func(at string) error { return os.Mkdir(at, 0o700) }, "a b.tar-2.gz"},
		"a pipe":   {func(at string) error { return syscall.Mkfifo(at, 0o600) }, "a b.tar-2.gz"},
		"gone":     {func(string) error { return nil }, "a b.tar.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			expect.NoError(t, r.homes.Create(t.Context(), "alpha", ""))
			keep := func(sent func(string) bool) string {
				t.Helper()
				at, err := r.homes.Keep("alpha", "a b.tar.gz", []byte("content"), sent)
				expect.NoError(t, err)
				return at
			}
			first := keep(none)
			expect.Equal(t, "changed", len(r.homes.Changed("alpha", []string{first, "notes/x", "inbox/x"})), 0)
			if c.put != nil {
				expect.NoError(t, os.Remove(r.in("alpha", first)))
				expect.NoError(t, c.put(r.in("alpha", first)))
			}
			want := map[bool]string{false: "[" + first + "]", true: "[]"}[name == "the same"]
			expect.Equal(t, "changed", fmt.Sprint(r.homes.Changed("alpha", []string{first})), want)
			expect.Equal(t, "the same request", keep(func(at string) bool { return at == first }), first)
			at := keep(none)
			expect.Equal(t, "name", path.Base(at), c.want)
			expect.Equal(t, "content", r.read(r.in("alpha", at)), "content")
			expect.Equal(t, "again", keep(none), at)
			expect.Equal(t, "the same request", keep(func(p string) bool { return p == at }), at)
		})
	}
}

// Where an agent takes all names of a file, the file is refused with an error for the operator.
func TestKeepFindsNoName(t *testing.T) {
	r := newRig(t)
	expect.NoError(t, r.homes.Create(t.Context(), "alpha", ""))
	for range home.MaxNames {
		at, err := r.homes.Keep("alpha", "a", []byte("x"), func(string) bool { return false })
		expect.NoError(t, err)
		expect.NoError(t, os.WriteFile(r.in("alpha", filepath.FromSlash(at)), nil, 0o600))
	}
	if at, err := r.homes.Keep("alpha", "a", []byte("x"), func(string) bool { return false }); err == nil {
		t.Errorf("the file is kept at %s, want an error", at)
	}
}

// A file is not put where the agent has something else than a directory, and the error names it.
func TestKeepNeedsItsDirectory(t *testing.T) {
	for name, put := range map[string]func(at string) error{
		"a file": func(at string) error { return os.WriteFile(at, nil, 0o600) },
		"a link": func(at string) error { return os.Symlink("notes", at) },
	} {
		r := newRig(t)
		expect.NoError(t, r.homes.Create(t.Context(), "alpha", ""))
		expect.NoError(t, os.RemoveAll(r.in("alpha", "inbox")))
		expect.NoError(t, put(r.in("alpha", "inbox")))
		_, err := r.homes.Keep("alpha", "a", []byte("x"), func(string) bool { return false })
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Param != "parts" {
			t.Fatalf("%s: %v, want an error about the parts", name, err)
		}
		expect.Contains(t, name, err.Error(), "inbox in it is not a directory")
	}
}
