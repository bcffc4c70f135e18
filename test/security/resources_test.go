package security

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state"
)

// count reads a number that the probe printed.
func count(t *testing.T, got map[string]string, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(got[name], 10, 64)
	if err != nil {
		t.Fatalf("%s: %q", name, got[name])
	}
	return n
}

// A fork bomb ends at the limit of its container; what it left ends with its
// command, and the agent works on.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	r := newLab(t).attack(nil, "/holon/input/probe fork 5000", `printf "still\tOK\n"`).completed(t)
	got := r.outcomes(t)
	switch n := count(t, got, "forks"); {
	case got["fork"] != "EAGAIN":
		t.Errorf(`got["fork"] = %q, want "EAGAIN"`, got["fork"])
	case n < 10:
		t.Errorf("n = %d, want at least 10", n)
	case n >= engine.MaxPids:
		t.Errorf("n = %d, want less than %d", n, engine.MaxPids)
	}
	if got["still"] != "OK" {
		t.Errorf("the command after it: %q", r.said)
	}
}

// A command that takes more memory than the limit is killed, alone or with its
// container, and the record says so. The host's memory is not used.
func TestMemory(t *testing.T) {
	t.Parallel()
	r := newLab(t).attack(func(o *oneshot.Run) {
		o.Session.Memory = 256 << 20
	}, "/holon/input/probe memory 4294967296; echo ended\tOK")
	for _, said := range r.said {
		if strings.Contains(said, "memory\tOK") {
			t.Errorf("4 GiB fit into 256 MiB: %q", said)
		}
	}
	if r.Limits.MemoryBytes != 256<<20 {
		t.Errorf("limits: %+v", r.Limits)
	}
	if r.Status != state.StatusCompleted && (r.Error == nil || r.Error.Code != string(runner.CodeContainerGone)) {
		t.Errorf("the run is %s: %+v", r.Status, r.Error)
	}
}

func TestDescriptors(t *testing.T) {
	t.Parallel()
	got := newLab(t).attack(nil, "/holon/input/probe descriptors", `printf "still\tOK\n"`).completed(t).outcomes(t)
	switch n := count(t, got, "descriptors"); {
	case got["open"] != "EMFILE":
		t.Errorf(`got["open"] = %q, want "EMFILE"`, got["open"])
	case n >= engine.MaxOpenFiles:
		t.Errorf("n = %d, want less than %d", n, engine.MaxOpenFiles)
	case got["still"] != "OK":
		t.Errorf(`got["still"] = %q, want "OK"`, got["still"])
	}
}

// File systems in memory are bounded in bytes and in files.
func TestMemoryFileSystems(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, fs := range engine.AllTmpfs() {
		got := l.attack(nil, "/holon/input/probe inodes "+fs.Target,
			"/holon/input/probe fill "+fs.Target+"/big 4294967296").completed(t).outcomes(t)
		if n := count(t, got, "files"); got["inodes"] != "ENOSPC" || n > fs.Size/4096 {
			t.Errorf("%s: %d files, then %s", fs.Target, n, got["inodes"])
		}
		if n := count(t, got, "bytes"); got["fill"] != "ENOSPC" || n > fs.Size {
			t.Errorf("%s: %d bytes, then %s", fs.Target, n, got["fill"])
		}
	}
	got := l.attack(nil, "/holon/input/probe fill /dev/shm/big 4294967296").completed(t).outcomes(t)
	if n := count(t, got, "bytes"); got["fill"] != "ENOSPC" || n > engine.ShmSize {
		t.Errorf("/dev/shm: %d bytes, then %s", n, got["fill"])
	}
}

// No file is larger than the limit, and one that holds nothing is not copied to
// where it would hold something.
func TestSparseFile(t *testing.T) {
	t.Parallel()
	r := newLab(t).attack(func(o *oneshot.Run) { o.Turn.Limits().MaxOutputBytes = 64 << 30 },
		"/holon/input/probe sparse big 10737418241 | sed s/^/tree-/",
		"/holon/input/probe sparse $HOLON_OUTPUT_DIR/big 10737418241 | sed s/^/out-/",
		"/holon/input/probe sparse big 9663676416; "+
			"/holon/input/probe sparse $HOLON_OUTPUT_DIR/big 9663676416").completed(t)
	switch got := r.outcomes(t); {
	case got["tree-sparse"] != "EFBIG":
		t.Errorf(`got["tree-sparse"] = %q, want "EFBIG"`, got["tree-sparse"])
	case got["out-sparse"] != "EFBIG":
		t.Errorf(`got["out-sparse"] = %q, want "EFBIG"`, got["out-sparse"])
	case got["sparse"] != "OK":
		t.Errorf(`got["sparse"] = %q, want "OK"`, got["sparse"])
	}
	if _, err := os.Stat(filepath.Join(r.dir, "big")); err == nil {
		t.Error("9 GiB of nothing were copied")
	}
	warned(t, r, "big", "GiB")
	warned(t, r, "big", "limit")
}

// warned fails the test unless a warning holds all the words.
func warned(t *testing.T, r result, words ...string) {
	t.Helper()
	for _, w := range r.Warnings {
		all := true
		for _, word := range words {
			all = all && strings.Contains(w, word)
		}
		if all {
			return
		}
	}
	t.Errorf("no warning has %q: %q", words, r.Warnings)
}

// Forty thousand files are neither all collected nor in the way of what
// comes after; all are removed.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.attack(func(o *oneshot.Run) { o.Workspace.Limits = workspace.Limits{Files: 1000} },
		"mkdir $HOLON_OUTPUT_DIR/many many; /holon/input/probe inodes $HOLON_OUTPUT_DIR/many 40000; "+
			"/holon/input/probe inodes many 5000").completed(t)
	files := 0
	err := filepath.WalkDir(filepath.Join(r.dir, turns.ArtifactsDir, "many"), func(_ string, d fs.DirEntry, err error) error {
		files++
		return err
	})
	if err != nil || files > 20_001 {
		t.Errorf("%d files were collected, %v", files, err)
	}
	warned(t, r, "more than 20000 files")
	// The next run finds the tree as it should be.
	again := l.attack(nil, "ls | tr '\\n' ' '").completed(t)
	if len(again.said) != 1 || again.said[0] != "a " {
		t.Errorf("the next run's tree: %q", again.said)
	}
}
