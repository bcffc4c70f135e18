package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/daemon"
	"holon/test/expect"
)

// A log that has grown is put aside by a start, and a look reads a bounded tail.
func TestLogs(t *testing.T) {
	t.Parallel()
	dir := home(t)
	d := of(t, dir, "well", "a")
	if logs, err := d.Logs(10); err != nil || logs.Lines == nil || len(logs.Lines) != 0 {
		t.Errorf("%+v, %v", logs, err)
	}
	expect.NoError(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	path := filepath.Join(dir, "run", "daemon.log")
	expect.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a line of the log\n", 600_000)), 0o644))
	for most, want := range map[int]int{0: 0, 3: 3, 1 << 30: daemon.MaxLines, -1: 0} {
		logs, err := d.Logs(most)
		if err != nil || len(logs.Lines) != want {
			t.Errorf("%d lines of %d, %v", len(logs.Lines), most, err)
		}
		for _, line := range logs.Lines {
			expect.Equal(t, "line", line, "a line of the log")
		}
	}
	start(t, d)
	if logs, err := d.Logs(10); err != nil || len(logs.Lines) != 1 {
		t.Errorf("%+v, %v", logs, err)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error(err)
	}
}

// Files of other versions, and broken ones, do no harm.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "no JSON": "{", "older": `{"pid": 1}`,
		"newer": `{"pid": 1, "start_ticks": 1, "boot_id": "x", "what_comes_next": {"a": []}}`,
		"wrong": `{"pid": "one"}`, "negative": `{"pid": -1}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := home(t)
			d := of(t, dir, "well", "a")
			expect.NoError(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
			for _, file := range []string{"daemon.json", "failure.json"} {
				expect.NoError(t, os.WriteFile(filepath.Join(dir, "run", file), []byte(content), 0o600))
			}
			if s := status(t, d); s.State != daemon.Ended {
				t.Errorf("%+v", s)
			}
			start(t, d)
		})
	}
}
