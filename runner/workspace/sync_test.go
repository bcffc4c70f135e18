package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/internal/folder"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// commitAll commits what is in the user's directory, if that is a repository.
func (w *agentWork) commitAll(t *testing.T) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(w.dir, ".git")); err == nil {
		gittest.Run(t, w.dir, "git", "add", "-A")
		gittest.Run(t, w.dir, "git", "commit", "-qm", "of the user")
	}
}

// syncSteps are the points of Sync and Merge at which a process may end.
var syncSteps = []string{"staged", "saved", "removed", "file", "file:2", "file:3", "moved", "recorded"}

// interruptAt makes the tree's process end at a step, or at its nth time.
func interruptAt(tree *Tree, step string) error {
	name, nth, _ := strings.Cut(step, ":")
	at, want := 0, 1
	if nth != "" {
		want = int(nth[0] - '0')
	}
	killed := errors.New("killed")
	tree.interrupt = func(step string) error {
		if step == name {
			if at++; at == want {
				return killed
			}
		}
		return nil
	}
	return killed
}

// A process that ends at any step of a sync leaves either all as it was or, once the next one took the tree up, all as
// it should be; nothing of the agent's is lost, ignored files stay.
func TestSyncKilled(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": tenLines, "gone": "g\n", "dir/f": "f\n", "file": "f\n", ".gitignore": "built\n",
		"run": "#!/bin/sh\n"}
	eachKind(t, files, func(t *testing.T, w *agentWork) {
		tree := acquire(t, w.options)
		gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "agent\n" + tenLines[2:], "mine": "m\n", "built/cache": "c\n",
			"dir/built": "stays\n"})
		for i, step := range syncSteps {
			want := map[string]string{"a.txt": "agent\n" + tenLines[2:] + fmt.Sprintf("%d\n", i), "gone": "",
				"file/now/a": fmt.Sprintf("directory %d\n", i), "file/b": "b\n", fmt.Sprintf("new%d", i): "n\n"}
			gittest.Write(t, w.dir, map[string]string{"a.txt": tenLines + fmt.Sprintf("%d\n", i)})
			expect.NoError(t, os.RemoveAll(filepath.Join(w.dir, "gone")))
			if i%2 == 0 {
				expect.NoError(t, os.RemoveAll(filepath.Join(w.dir, "file")))
				gittest.Write(t, w.dir, map[string]string{"file/now/a": want["file/now/a"], "file/b": "b\n"})
			} else {
				expect.NoError(t, os.RemoveAll(filepath.Join(w.dir, "file")))
				gittest.Write(t, w.dir, map[string]string{"file": fmt.Sprintf("file %d\n", i)})
				delete(want, "file/now/a")
				delete(want, "file/b")
				want["file"] = fmt.Sprintf("file %d\n", i)
			}
			gittest.Write(t, w.dir, map[string]string{fmt.Sprintf("new%d", i): "n\n"})
			w.commitAll(t)

			before := gittest.Contents(t, tree.Dir())
			killed := interruptAt(tree, step)
			if _, err := tree.Sync(t.Context()); !errors.Is(err, killed) {
				t.Fatalf("%s: %v", step, err)
			}
			held := tree.Held()
			die(t, tree)
			var err error
			tree, err = Resume(t.Context(), Options{CacheDir: w.options.CacheDir}, held)
			expect.NoError(t, err)
			if step == "staged" {
				gittest.WantUntouched(t, fmt.Sprint(before), fmt.Sprint(gittest.Contents(t, tree.Dir())))
				_, err := tree.Sync(t.Context())
				expect.NoError(t, err)
			}
			wantContent(t, tree.Dir(), want)
			wantContent(t, tree.Dir(), map[string]string{"mine": "m\n", "built/cache": "c\n", "dir/built": "stays\n"})
			diff, _ := diffOf(t, tree)
			wantChanges(t, diff, "M a.txt", "A mine")
			synced, err := tree.Sync(t.Context())
			if expect.NoError(t, err); len(synced.Files) > 0 {
				t.Errorf("%s: again synced %q", step, changes(&Diff{Files: synced.Files}))
			}
		}
		expect.NoError(t, tree.Release(t.Context()))
	})
}

// What a user does to files comes in as it is, and what the agent has in its place is kept or named.
func TestSyncKinds(t *testing.T) {
	t.Parallel()
	base := map[string]string{"run.sh": "#!/bin/sh\n", "text": "text\n", "link": "-> text", "sub/a": "a\n", "b": "b\n",
		"odd\n\"name\\": "odd\n", ".gitignore": "*.o\n"}
	binary := "\x00\x01" + strings.Repeat("\xff\x00", 500)
	for name, theirs := range map[string]struct {
		user, agent func(dir string) error // agent: before the sync
		want        string                 // a conflict's path
		file, text  string
	}{
		"mode": {user: func(dir string) error { return os.Chmod(filepath.Join(dir, "text"), 0o755) },
			file: "text", text: "-rwxr-xr-x text\n"},
		"link to file": {user: func(dir string) error {
			return errors.Join(os.Remove(dir+"/link"), os.WriteFile(dir+"/link", []byte("x"), 0o644))
		}, file: "link", text: "-rw-r--r-- x"},
		"file to link": {user: func(dir string) error {
			return errors.Join(os.Remove(dir+"/b"), os.Symlink("../elsewhere", dir+"/b"))
		}, file: "b", text: "-> ../elsewhere"},
		"rename": {user: func(dir string) error { return os.Rename(dir+"/b", dir+"/B") }, file: "B", text: "-rw-r--r-- b\n"},
		"binary": {user: func(dir string) error { return os.WriteFile(dir+"/bin", []byte(binary), 0o644) }, file: "bin",
			text: "-rw-r--r-- " + binary},
		"odd name": {user: func(dir string) error { return os.WriteFile(dir+"/odd\n\"name\\", []byte("new"), 0o644) },
			file: "odd\n\"name\\", text: "-rw-r--r-- new"},
		"bytes in a name": {user: func(dir string) error { return os.WriteFile(dir+"/\xff", []byte("y"), 0o644) },
			file: "\xff", text: "-rw-r--r-- y"},
		"directory gone, ignored files there": {user: func(dir string) error { return os.RemoveAll(dir + "/sub") },
			agent: func(dir string) error { return os.WriteFile(dir+"/sub/x.o", []byte("o"), 0o644) },
			file:  "sub/x.o", text: "-rw-r--r-- o"},
		"directory to file, ignored files there": {user: func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/sub"), os.WriteFile(dir+"/sub", nil, 0o644))
		}, agent: func(dir string) error { return os.WriteFile(dir+"/sub/x.o", []byte("o"), 0o644) }, want: "sub"},
		"directory to file, empty directories there": {user: func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/sub"), os.WriteFile(dir+"/sub", []byte("s"), 0o644))
		}, agent: func(dir string) error { return os.MkdirAll(dir+"/sub/x/y", 0o755) }, file: "sub", text: "-rw-r--r-- s"},
		"pipe in the way": {user: func(dir string) error { return os.WriteFile(dir+"/pipe", nil, 0o644) },
			agent: func(dir string) error { return syscall.Mkfifo(dir+"/pipe", 0o644) }, want: "pipe"},
		"pipe instead": {user: func(dir string) error { return os.WriteFile(dir+"/text", []byte("new"), 0o644) },
			agent: func(dir string) error {
				return errors.Join(os.Remove(dir+"/text"), syscall.Mkfifo(dir+"/text", 0o644))
			}, want: "text"},
		"link in place of a directory": {user: func(dir string) error {
			return os.WriteFile(dir+"/new/file", []byte("x"), 0o644)
		}, agent: func(dir string) error { return os.Symlink("/tmp", dir+"/new") }, want: "new"},
		"unreadable directory": {user: func(dir string) error { return os.WriteFile(dir+"/sub/a", []byte("new"), 0o644) },
			agent: func(dir string) error { return os.Chmod(dir+"/sub", 0) }, file: "sub/a", text: "-rw-r--r-- new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWork(t, gittest.NewRepo(t, base))
			tree := acquire(t, w.options)
			if theirs.agent != nil {
				expect.NoError(t, theirs.agent(tree.Dir()))
			}
			if theirs.want == "new" {
				expect.NoError(t, os.Mkdir(w.dir+"/new", 0o755))
			}
			expect.NoError(t, theirs.user(w.dir))
			_, err := tree.Sync(t.Context())
			if theirs.want != "" {
				wantConflict(t, err, theirs.want)
				return
			}
			expect.NoError(t, err)
			if got := look(t, filepath.Join(tree.Dir(), theirs.file)); got != theirs.text {
				t.Errorf("it is %.100q", got)
			}
			diff, _ := diffOf(t, tree)
			wantChanges(t, diff)
		})
	}
}

// look describes a file: its mode and content, or the target of a link.
func look(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	expect.NoError(t, err)
	if info.Mode()&os.ModeSymlink != 0 {
		target, _ := os.Readlink(path)
		return "-> " + target
	}
	data, _ := os.ReadFile(path)
	return strings.TrimSuffix(info.Mode().String()+" "+string(data), " \x00")
}

// A full disk leaves all as it was.
func TestSyncDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	small := t.TempDir()
	if err := unix.Mount("none", small, "tmpfs", 0, "size=3m"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { expect.NoError(t, unix.Unmount(small, unix.MNT_DETACH)) })
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": "a\n"}))
	w.options.CacheDir, w.options.TreeDir = filepath.Join(small, "cache"), filepath.Join(small, "tree")
	w.options.IncludeDirty, w.options.ObjectsDir = false, ""
	tree := acquire(t, w.options)
	gittest.Write(t, tree.Dir(), map[string]string{"a": "agent\n"})
	gittest.Write(t, w.dir, map[string]string{"b": "b\n", "large": strings.Repeat("large\n", 1<<20)})
	w.commitAll(t)
	_, err := tree.Sync(t.Context())
	wantCode(t, err, "disk_full")
	wantContent(t, tree.Dir(), map[string]string{"a": "agent\n", "b": "", "large": ""})
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "M a")
	expect.NoError(t, os.Remove(filepath.Join(w.dir, "large")))
	w.commitAll(t)
	_, err = tree.Sync(t.Context())
	expect.NoError(t, err)
	wantContent(t, tree.Dir(), map[string]string{"a": "agent\n", "b": "b\n"})
}

// A change within the tick of the clock in which the file was recorded is found by its content, also after the record
// was made anew.
func TestSyncRacy(t *testing.T) {
	t.Parallel()
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": "a\n"}))
	tree := acquire(t, w.options)
	for _, move := range []func() error{func() error { _, err := tree.Sync(t.Context()); return err },
		func() error { return tree.Advance(t.Context()) }} {
		gittest.Write(t, tree.Dir(), map[string]string{"a": "b\n"})
		var st unix.Stat_t
		expect.NoError(t, unix.Lstat(filepath.Join(tree.Dir(), "a"), &st))
		tree.record.entries[0].Stat, tree.record.header.Stamp = folder.StatOf(&st), st.Ctim.Nano()
		expect.NoError(t, move())
		tree.record.header.Stamp += int64(time.Second) // as if the machine were slow
		diff, _ := diffOf(t, tree)
		if tree.Info().IncludedDirty {
			wantChanges(t, diff)
		} else {
			wantChanges(t, diff, "M a")
		}
	}
}

// Of a large change that does not merge the files at fault are found, wherever they are in it.
func TestMergeLargeConflict(t *testing.T) {
	t.Parallel()
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": "a\n", "last": "l\n"}))
	tree := acquire(t, w.options)
	fork, err := tree.Fork(t.Context(), Options{TreeDir: w.options.TreeDir + "-fork", Claim: "child"})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, fork.Release(context.Background())) })
	changed := map[string]string{}
	for n := range 1200 {
		changed[fmt.Sprintf("many/%04d", n)] = fmt.Sprintln(n)
	}
	gittest.Write(t, fork.Dir(), changed)
	expect.NoError(t, os.Chmod(filepath.Join(fork.Dir(), "a"), 0o755))
	gittest.Write(t, fork.Dir(), map[string]string{"last": "child\n"})
	results := t.TempDir()
	from := Continuation{Run: "child", Patch: filepath.Join(results, "p"), Objects: filepath.Join(results, "objects")}
	_, err = fork.Diff(t.Context(), DiffOptions{Patch: from.Patch, Objects: from.Objects})
	expect.NoError(t, err)
	gittest.Write(t, tree.Dir(), map[string]string{"many/0700": "mine\n", "last": "mine\n", "many/0003": "3\n"})
	expect.NoError(t, os.Remove(filepath.Join(tree.Dir(), "a")))
	_, err = tree.Merge(t.Context(), from)
	e, ok := errors.AsType[*git.Error](err)
	if !ok || e.Code != CodeConflict {
		t.Fatalf("merged: %v", err)
	}
	expect.Equal(t, "conflicts", fmt.Sprint(e.Paths), "[a last many/0700]")
	if _, err := os.Lstat(filepath.Join(tree.Dir(), "many/0001")); err == nil {
		t.Error("something was changed")
	}
}
