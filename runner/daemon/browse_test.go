package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// A browser is given a file of the home, which only its user reads, and no program the link. Without a browser the
// file is gone again.
func TestBrowse(t *testing.T) {
	home, bin := t.TempDir(), t.TempDir()
	expect.NoError(t, os.Mkdir(filepath.Join(home, "run"), 0o700))
	given := filepath.Join(bin, "given")
	for _, name := range []string{"xdg-open", "open"} {
		expect.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"$@\" >"+given+"\n"), 0o700))
	}
	t.Setenv("PATH", bin)
	const link = "http://127.0.0.1:7878/ui/login?token=A&b=\"c"
	expect.NoError(t, Browse(t.Context(), home, link))
	path := filepath.Join(home, "run", "ui.html")
	if args, err := os.ReadFile(given); err != nil || string(args) != path+"\n" {
		t.Errorf("the browser was given %q (%v), want %s", args, err, path)
	}
	info, err := os.Stat(path)
	expect.NoError(t, err)
	page, err := os.ReadFile(path)
	expect.NoError(t, err)
	if info.Mode().Perm() != 0o600 || !strings.Contains(string(page), "token=A&amp;b=&#34;c\"") {
		t.Errorf("the file has the mode %v and %s", info.Mode(), page)
	}
	t.Setenv("PATH", t.TempDir())
	if err := Browse(t.Context(), home, link); !state.IsCode(err, CodeNoBrowser) {
		t.Errorf("without a browser: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is still there")
	}
}
