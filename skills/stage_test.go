package skills

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestStage(t *testing.T) {
	from := t.TempDir()
	addSkill(t, from, "one", "first")
	addSkill(t, from, "two", "second")
	write(t, filepath.Join(from, "two", "scripts", "run.sh"), "#!/bin/sh\n")
	write(t, filepath.Join(from, "two", ".git", "config"), "[core]\n")
	expect.NoError(t, errors.Join(
		os.Chmod(filepath.Join(from, "two", "scripts", "run.sh"), 0o700),
		os.Symlink("scripts/run.sh", filepath.Join(from, "two", "run")),
		os.Symlink("..", filepath.Join(from, "two", "scripts", "up")),
		os.Symlink(filepath.Join(from, "one"), filepath.Join(from, "link")),
	))
	dst := filepath.Join(t.TempDir(), "skills")
	staged, err := Stage(t.Context(),
		[]string{filepath.Join(from, "two", "SKILL.md"), filepath.Join(from, "one") + "/"}, dst)
	expect.NoError(t, err)
	want := []Skill{
		{Name: "two", Description: "second", Path: filepath.Join(dst, "two", "SKILL.md")},
		{Name: "one", Description: "first", Path: filepath.Join(dst, "one", "SKILL.md")},
	}
	if diff := cmp.Diff(want, staged); diff != "" {
		t.Errorf("staged (-want +got):\n%s", diff)
	}
	wantTree := map[string]string{
		"one": "drwxr-xr-x", "one/SKILL.md": "-rw-r--r--",
		"two": "drwxr-xr-x", "two/SKILL.md": "-rw-r--r--", "two/run": "-> scripts/run.sh",
		"two/scripts": "drwxr-xr-x", "two/scripts/run.sh": "-rwxr-xr-x", "two/scripts/up": "-> ..",
	}
	if diff := cmp.Diff(wantTree, tree(t, dst)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if found, problems := discoverIn(dst); len(found) != 2 || len(problems) != 0 {
		t.Errorf("found there: %v, %v", found, problems)
	}
	body, err := os.ReadFile(filepath.Join(dst, "one", "SKILL.md"))
	if orig, _ := os.ReadFile(filepath.Join(from, "one", "SKILL.md")); err != nil || string(body) != string(orig) {
		t.Errorf("copy = %q, %v", body, err)
	}
	// More skills can be staged later.
	addSkill(t, from, "three", "third")
	if _, err := Stage(t.Context(), []string{filepath.Join(from, "three")}, dst); err != nil {
		t.Error(err)
	}
}

func TestStageRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, "secret")
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, dir string) // dir is a good skill's folder
		source  func(dir string) []string
		code    problemCode
	}{
		{name: "link out", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			symlink(t, outside, dir+"/x")
		}},
		{name: "relative link out", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			symlink(t, "../good2/SKILL.md", dir+"/x")
		}},
		{name: "link out and back", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			symlink(t, "../good/SKILL.md", dir+"/x")
		}},
		{name: "absolute link to itself", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			symlink(t, dir+"/SKILL.md", dir+"/x")
		}},
		{name: "dangling link", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			symlink(t, "nowhere", dir+"/x")
		}},
		{name: "link into .git", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			write(t, dir+"/.git/config", "")
			symlink(t, ".git/config", dir+"/x")
		}},
		{name: "skill file is a link out", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			expect.NoError(t, os.Remove(dir+"/SKILL.md"))
			symlink(t, outside, dir+"/SKILL.md")
		}},
		{name: "fifo", code: "skill_unsafe", prepare: func(t *testing.T, dir string) {
			expect.NoError(t, unix.Mkfifo(dir+"/x", 0o600))
		}},
		{name: "huge file", code: "skill_too_large", prepare: func(t *testing.T, dir string) {
			write(t, dir+"/x", "")
			expect.NoError(t, os.Truncate(dir+"/x", 1<<40))
		}},
		{name: "deep folders", code: "skill_too_large", prepare: func(t *testing.T, dir string) {
			for range 40 {
				dir += "/d"
			}
			mustMkdir(t, dir)
		}},
		{name: "other name", code: "skill_invalid", prepare: func(t *testing.T, dir string) {
			write(t, dir+"/SKILL.md", "---\nname: other\ndescription: b\n---\n")
		}},
		{name: "no skill", code: "skill_file_missing", prepare: func(t *testing.T, dir string) {
			expect.NoError(t, os.Remove(dir+"/SKILL.md"))
		}},
		{name: "absent", code: "skill_unreadable", source: func(dir string) []string {
			return []string{dir + "-absent"}
		}},
		{name: "twice", code: "skill_duplicate", source: func(dir string) []string {
			return []string{dir, dir + "/SKILL.md"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from := t.TempDir()
			addSkill(t, from, "good", "first")
			addSkill(t, from, "good2", "second")
			dir := filepath.Join(from, "good")
			if tc.prepare != nil {
				tc.prepare(t, dir)
			}
			sources := []string{filepath.Join(from, "good2"), dir} // what was staged before goes too
			if tc.source != nil {
				sources = tc.source(dir)
			}
			dst := filepath.Join(t.TempDir(), "skills")
			staged, err := Stage(t.Context(), sources, dst)
			p, ok := errors.AsType[*InvalidSkill](err)
			if !ok || p.Code != tc.code || p.Hint == "" || p.Path == "" || staged != nil {
				t.Fatalf("staged %v, error %#v, want the code %s with a hint and a path", staged, err, tc.code)
			}
			if _, err := os.Lstat(dst); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left behind: %v", tree(t, dst))
			}
		})
	}
}

// A failure leaves the skills that were there before.
func TestStageKeepsOthers(t *testing.T) {
	from, dst := t.TempDir(), t.TempDir()
	addSkill(t, dst, "present", "x")
	addSkill(t, from, "present", "y")
	addSkill(t, from, "fresh", "z")
	before := tree(t, dst)
	if _, err := Stage(t.Context(), []string{filepath.Join(from, "fresh"), filepath.Join(from, "present")},
		dst); err == nil {
		t.Fatal("staged over a skill that is there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Stage(ctx, []string{filepath.Join(from, "fresh")}, dst); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	if diff := cmp.Diff(before, tree(t, dst)); diff != "" {
		t.Errorf("changed (-before +after):\n%s", diff)
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	expect.NoError(t, os.Symlink(target, path))
}

// tree maps the paths beneath dir to their modes, or where they link to.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		found[rel] = info.Mode().String()
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			found[rel] = "-> " + target
			return err
		}
		return err
	})
	expect.NoError(t, err)
	return found
}
