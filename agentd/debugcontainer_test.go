package agentd

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"holon/responses/turns"
	"holon/test/expect"
)

func TestReadCgroup(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  turns.Place
	}{
		"version 2": {map[string]string{"cgroup.controllers": "cpu memory pids\n", "memory.max": "2147483648\n",
			"pids.max": "512\n", "cpu.max": "150000 100000\n"},
			turns.Place{CgroupVersion: 2, Memory: 2 << 30, Pids: 512, CPUs: 1.5}},
		"version 2, no limits": {map[string]string{"cgroup.controllers": "", "memory.max": "max\n", "pids.max": "max\n",
			"cpu.max": "max 100000\n"},
			turns.Place{CgroupVersion: 2}},
		"version 1": {map[string]string{"memory/memory.limit_in_bytes": "1073741824\n", "pids/pids.max": "64\n",
			"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"},
			turns.Place{CgroupVersion: 1, Memory: 1 << 30, Pids: 64, CPUs: 2}},
		"version 1, no limits": {map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n",
			"pids/pids.max": "max\n", "cpu/cpu.cfs_quota_us": "-1\n"},
			turns.Place{CgroupVersion: 1}},
		"none": {nil, turns.Place{}},
		"garbage": {map[string]string{"cgroup.controllers": "", "memory.max": "x", "pids.max": "", "cpu.max": "1 0"},
			turns.Place{CgroupVersion: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range test.files {
				path := filepath.Join(root, file)
				expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				expect.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			var got turns.Place
			readCgroup(root, &got)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("read %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestMountIsTested(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := DebugContainer(dir)
	if got.Shared == nil || got.Shared.Error == "" {
		t.Errorf("without the host's file the exchange is %+v, want an error", got.Shared)
	}
	expect.NoError(t, os.WriteFile(filepath.Join(dir, turns.SharedFromHost), []byte("word"), 0o600))
	got = DebugContainer(dir)
	if want := (&turns.SharedFiles{Read: "word"}); !reflect.DeepEqual(got.Shared, want) {
		t.Errorf("the exchange is %+v, want %+v", got.Shared, want)
	}
	expect.Equal(t, "the version", got.Version, Version())
	expect.Equal(t, "the user", got.UID, os.Geteuid())
	if _, err := os.Lstat(filepath.Join(dir, turns.SharedSentinel)); !os.IsNotExist(err) {
		t.Errorf("the file that is to be removed gives %v, want that it is gone", err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, turns.SharedFromContainer)); err != nil || string(kept) != "word" {
		t.Errorf("the file for the host holds %q (%v), want %q", kept, err, "word")
	}
	if again := DebugContainer(dir); again.Shared.Error == "" {
		t.Error("a second exchange wrote over the files of the first")
	}
}
