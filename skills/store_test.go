package skills

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/test/expect"
)

func TestDigest(t *testing.T) {
	base := func(t *testing.T) string {
		dir := t.TempDir()
		addSkill(t, dir, "a", "x")
		write(t, dir+"/a/scripts/run", "one")
		symlink(t, "scripts/run", dir+"/a/run")
		return dir + "/a"
	}
	digest := func(t *testing.T, dir string) string {
		t.Helper()
		sum, err := digestOf(dir)
		expect.NoError(t, err)
		return sum
	}
	want := digest(t, base(t))
	if !strings.HasPrefix(want, "sha256:") || len(want) != 71 {
		t.Errorf("digest %q", want)
	}
	for name, same := range map[string]func(dir string) error{
		"times": func(dir string) error {
			return os.Chtimes(dir+"/SKILL.md", time.Unix(1, 0), time.Unix(1, 0))
		},
		"other modes":     func(dir string) error { return os.Chmod(dir+"/SKILL.md", 0o600) },
		"history":         func(dir string) error { return os.MkdirAll(dir+"/.git/objects", 0o700) },
		"an empty folder": func(dir string) error { return os.Mkdir(dir+"/empty", 0o700) },
	} {
		dir := base(t)
		if err := same(dir); err != nil || digest(t, dir) != want {
			t.Errorf("%s counts (%v)", name, err)
		}
	}
	seen := map[string]string{want: "nothing"}
	for name, change := range map[string]func(dir string) error{
		"content":    func(dir string) error { return os.WriteFile(dir+"/scripts/run", []byte("two"), 0o600) },
		"a name":     func(dir string) error { return os.Rename(dir+"/scripts/run", dir+"/scripts/ran") },
		"executable": func(dir string) error { return os.Chmod(dir+"/scripts/run", 0o755) },
		"a link": func(dir string) error {
			return errors.Join(os.Remove(dir+"/run"), os.Symlink("SKILL.md", dir+"/run"))
		},
		"one more": func(dir string) error { return os.WriteFile(dir+"/more", nil, 0o600) },
		"one less": func(dir string) error { return os.Remove(dir + "/run") },
	} {
		dir := base(t)
		expect.NoError(t, change(dir))
		if before, twice := seen[digest(t, dir)]; twice {
			t.Errorf("%s and %s have one digest", name, before)
		}
		seen[digest(t, dir)] = name
	}
}

// Files that a crash left are never used, and installing again repairs them.
func TestStoreAfterACrash(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, crash := range map[string]func(t *testing.T, dir string){
		"half a copy":              func(t *testing.T, dir string) { write(t, dir+"/.new-a/SKILL.md", "half") },
		"a pin without its folder": func(t *testing.T, dir string) { expect.NoError(t, os.RemoveAll(dir+"/a")) },
		"the former one moved away": func(t *testing.T, dir string) {
			expect.NoError(t, os.Rename(dir+"/a", dir+"/.new-a"))
		},
		"a pin of the next version": func(t *testing.T, dir string) {
			write(t, dir+"/a/SKILL.md", "---\nname: a\ndescription: older\n---\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, dir := t.TempDir(), filepath.Join(t.TempDir(), "skills")
			addSkill(t, from, "a", "x")
			store := NewStore(dir)
			in := Install{Folder: from + "/a", Pin: Pin{Source: "a"}, Now: now}
			if _, err := store.Install(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			crash(t, dir)
			if _, err := store.Install(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			list, err := store.List()
			if err != nil || len(list) != 1 || list[0].State != "ok" {
				t.Errorf("%+v, %v", list, err)
			}
			entries, err := os.ReadDir(dir)
			for _, entry := range entries {
				if strings.HasPrefix(entry.Name(), ".new-") {
					t.Errorf("left behind: %s (%v)", entry.Name(), err)
				}
			}
			if _, err := Stage(t.Context(), []string{dir + "/a"}, filepath.Join(t.TempDir(), "s")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStoreRefuses(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	addSkill(t, from, "a", "x")
	addSkill(t, dir, "a", "put there by hand")
	store := NewStore(dir)
	_, err := store.Install(t.Context(), Install{Folder: from + "/a", Now: time.Unix(0, 0)})
	if p, ok := errors.AsType[*InvalidSkill](err); !ok || p.Code != "skill_duplicate" {
		t.Errorf("%#v", err)
	}
	if list, err := store.List(); err != nil || len(list) != 1 || list[0].State != "unpinned" {
		t.Errorf("%+v, %v", list, err)
	}
	for name, text := range map[string]string{"cut": `{"schema":`, "another schema": `{"schema":"x"}`,
		"an unsafe name": `{"schema":"holon.skills/1","skills":{"../x":{"digest":"sha256:0"}}}`,
		"no digest":      `{"schema":"holon.skills/1","skills":{"x":{}}}`} {
		write(t, dir+"/"+"skills.lock.json", text)
		for doing, do := range map[string]func() error{
			"install": func() error {
				_, err := store.Install(t.Context(), Install{Folder: from + "/a"})
				return err
			},
			"list":   func() error { _, err := store.List(); return err },
			"remove": func() error { return store.Remove("a") },
			"stage": func() error {
				_, err := Stage(t.Context(), []string{dir + "/a"}, filepath.Join(t.TempDir(), "s"))
				return err
			},
		} {
			if p, ok := errors.AsType[*InvalidSkill](do()); !ok || p.Code != "skill_digest" || p.Hint == "" {
				t.Errorf("%s with a lock file that is %s: %+v", doing, name, p)
			}
		}
	}
}
