package home_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
)

// The export has each episode once, however often it is written, and is made anew where it is missing or broken off.
func TestExportEpisodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	prefix := "ep_"
	path := filepath.Join(r.state.AgentPrivateDir("main"), "ledger", "context_episodes.jsonl")
	export := func(n int64) {
		t.Helper()
		expect.NoError(t, r.homes.ExportEpisodes("main", func(after int64) (list []ledger.Episode, err error) {
			for i := after + 1; i <= min(n, after+2); i++ {
				list = append(list, ledger.Episode{ID: fmt.Sprint(prefix, i), Number: i})
			}
			return list, nil
		}))
		text, err := os.ReadFile(path)
		expect.NoError(t, err)
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		expect.Equal(t, "lines", len(lines), int(n))
		for i, line := range lines {
			if !strings.HasPrefix(line, fmt.Sprintf(`{"id":"%s%d"`, prefix, i+1)) {
				t.Errorf("line %d is %s", i+1, line)
			}
		}
	}
	export(3)
	export(3)
	export(4)
	expect.NoError(t, os.Remove(path))
	export(4)
	expect.NoError(t, os.Truncate(path, 150))
	export(5)
	expect.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o600))
	export(5)
	prefix = "restored_"
	export(5)
	export(4)
}

// An export goes through no link, whose target it would empty.
func TestExportEpisodesFollowsNoLink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := filepath.Join(r.state.AgentPrivateDir("main"), "ledger")
	path := filepath.Join(dir, "context_episodes.jsonl")
	other := t.TempDir()
	target := filepath.Join(other, "context_episodes.jsonl")
	expect.NoError(t, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(target, []byte("{}\n"), 0o600),
		os.Symlink(target, path)))
	for _, what := range []string{"file", "directory"} {
		err := r.homes.ExportEpisodes("main", func(int64) ([]ledger.Episode, error) { return nil, nil })
		if err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("a link at the %s: %v", what, err)
		}
		if text, err := os.ReadFile(target); err != nil || string(text) != "{}\n" {
			t.Errorf("a link at the %s leads to %q (%v)", what, text, err)
		}
		expect.NoError(t, errors.Join(os.RemoveAll(dir), os.Symlink(other, dir)))
	}
}
