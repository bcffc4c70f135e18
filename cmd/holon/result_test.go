package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner"
	"holon/state"
	"holon/state/files"
	"holon/test/expect"
)

// A change that was not collected is not an empty one, and one that is kept has its remedy.
func TestUncollected(t *testing.T) {
	dir := t.TempDir()
	entry := &files.Entry{ID: "run_x", Dir: dir, Manifest: &state.Manifest{RunID: "run_x", Turn: &state.TurnRef{},
		Workspace: &state.Workspace{}}}
	for _, want := range []string{"was not collected", "is not saved yet"} {
		_, _, err := result(entry)
		f := runner.Describe(err)
		if !strings.Contains(f.Message, want) || exitCode(err) != exitRefused {
			t.Errorf("the error is %+v with exit code %d, want %q", f, exitCode(err), want)
		}
		if want == "is not saved yet" && !strings.Contains(f.Hint, "holon gc") {
			t.Errorf("the remedy is %q", f.Hint)
		}
		expect.NoError(t, os.WriteFile(filepath.Join(dir, state.SessionFile), nil, 0o600))
	}
	entry.Manifest.Turn = nil
	if _, diff, err := result(entry); diff != nil || err != nil {
		t.Errorf("a run without a turn: %v, %v", diff, err)
	}
}

// show says which hosts were opened.
func TestNetworkOf(t *testing.T) {
	m := &state.Manifest{}
	if got := networkOf(m); got != "" {
		t.Errorf("networkOf = %q, want nothing", got)
	}
	m.Egress = &state.Egress{AllowHosts: []string{"example.com", "*.example.org"}, Allowed: 1, Denied: 2}
	if got, want := networkOf(m), "open to example.com, *.example.org: 1 connection, 2 denied"; got != want {
		t.Errorf("networkOf = %q, want %q", got, want)
	}
}
