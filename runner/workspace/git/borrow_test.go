package git

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// A repository borrows from object directories only, reached without a link, within its own top-level directory or
// where the operator allows it.
func TestBorrowing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plant string   // run in the repository $REPO, next to $OTHER, another one, and $HOME
		dir   string   // that is asked about, "" for the repository
		allow []string // relative to what holds both
		want  []string // borrowed, likewise
		code  string
	}{
		"nothing": {plant: `:`},
		"packed": {plant: `git gc -q; git multi-pack-index write; git commit-graph write --reachable --split;
			git maintenance run --task=loose-objects; cd .git/objects;
			touch pack/tmp_pack_x pack/loose-0a.pack maintenance.lock`},
		"inside": {plant: `git clone -q --bare "$OTHER" inner; echo ../../inner/objects > $ALTERNATES`,
			want: []string{"repo/inner/objects"}},
		"comments": {plant: `git clone -q --bare "$OTHER" inner;
			printf '# x\n\n%s/inner/objects/\n' "$REPO" > $ALTERNATES`, want: []string{"repo/inner/objects"}},
		"quoted": {plant: `git clone -q --bare "$OTHER" 'a"b';
			printf '"%s/a\\"\\142/objects"\n' "$REPO" > $ALTERNATES`, want: []string{`repo/a"b/objects`}},
		"itself": {plant: `echo "$REPO/.git/objects" > $ALTERNATES`},
		"circle": {plant: `git clone -q --bare . inner; echo "$REPO/.git/objects" > inner/objects/info/alternates;
			echo "$REPO/inner/objects" > $ALTERNATES`, want: []string{"repo/inner/objects"}},
		"allowed": {plant: `echo "$OTHER/.git/objects" > $ALTERNATES`, allow: []string{"other/.git/objects"},
			want: []string{"other/.git/objects"}},
		"allowed above": {plant: `echo "$OTHER/.git/objects" > $ALTERNATES`, allow: []string{"absent", "other"},
			want: []string{"other/.git/objects"}},
		"of a linked working tree": {plant: `git clone -q --bare . inner; echo ../../inner/objects > $ALTERNATES;
			git worktree add -q ../linked`,
			dir: "linked", want: []string{"repo/inner/objects"}},
		"in turn": {plant: `git clone -q --bare . a; cp -r a b; cp -r a c; echo ../../a/objects > $ALTERNATES;
			echo ../../c/objects >> $ALTERNATES; echo ../../b/objects > a/objects/info/alternates`,
			want: []string{"repo/a/objects", "repo/b/objects", "repo/c/objects"}},

		"outside":           {plant: `echo "$OTHER/.git/objects" > $ALTERNATES`, code: codeForeignObjects},
		"outside, relative": {plant: `echo ../../../other/.git/objects > $ALTERNATES`, code: codeForeignObjects},
		"similar name": {plant: `cp -r "$OTHER" ../repo2; echo "$REPO"2/.git/objects > $ALTERNATES`,
			code: codeForeignObjects},
		"outside, in turn": {plant: `git clone -q --bare . a; echo ../../a/objects > $ALTERNATES;
			echo "$OTHER/.git/objects" > a/objects/info/alternates`, code: codeForeignObjects},
		"allowed, in turn": {plant: `echo "$OTHER/.git/objects" > $ALTERNATES;
			echo "$HOME/.ssh" > "$OTHER/.git/objects/info/alternates"`,
			allow: []string{"other"}, code: codeForeignObjects},
		"keys": {plant: `echo "$HOME/.ssh" > $ALTERNATES`, code: codeForeignObjects},
		"keys, allowed": {plant: `echo "$HOME/.ssh" > $ALTERNATES`, allow: []string{"home"},
			code: codeForeignObjects},
		"state home": {plant: `cp -r "$OTHER" "$HOME/.holon/other";
			echo "$HOME/.holon/other/.git/objects" > $ALTERNATES`, allow: []string{"home"}, code: codeForeignObjects},
		"through a link": {plant: `git clone -q --bare . a; ln -s a b; echo ../../b/objects > $ALTERNATES`,
			code: codeForeignObjects},
		"link and back": {plant: `git clone -q --bare . a; ln -s "$OTHER/.git" b;
			echo ../../b/../../repo/a/objects > $ALTERNATES`, code: codeForeignObjects},
		"a link to another": {plant: `ln -s "$OTHER/.git/objects" a; echo ../../a > $ALTERNATES`,
			code: codeForeignObjects},
		"allowed by a link": {plant: `ln -s "$HOME" ../other/home; echo "$OTHER/home/.ssh" > $ALTERNATES`,
			allow: []string{"other"}, code: codeForeignObjects},
		"a socket": {plant: `git clone -q --bare . a; mv "$HOME/agent.sock" a/objects/;
			echo ../../a/objects > $ALTERNATES`, code: codeForeignObjects},
		"a socket as object": {plant: `mkdir -p .git/objects/00;
			mv "$HOME/agent.sock" .git/objects/00/00000000000000000000000000000000000000`, code: codeForeignObjects},
		"a pipe":            {plant: `mkfifo .git/objects/pack/pack-0.pack`, code: codeForeignObjects},
		"another file":      {plant: `touch .git/objects/id_rsa`, code: codeForeignObjects},
		"another directory": {plant: `mkdir -p .git/objects/info/x`, code: codeForeignObjects},
		"absent":            {plant: `echo /nowhere > $ALTERNATES`, code: CodeBrokenRepository},
		"bad quotes":        {plant: `echo '"\x2f"' > $ALTERNATES`, code: CodeBrokenRepository},
		"too many":          {plant: `seq 1 1000 > $ALTERNATES`, code: CodeBrokenRepository},
		"too deep": {plant: `git clone -q --bare . a; for i in 1 2 3 4 5 6; do cp -r a b$i;
			echo "$REPO/b$i/objects" > ${LAST:-$REPO/.git}/objects/info/alternates; LAST=$REPO/b$i;
			done`, code: CodeBrokenRepository},
		"alternates a link": {plant: `ln -s /etc/passwd $ALTERNATES`, code: codeForeignObjects},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			home := filepath.Join(dir, "home")
			gittest.Write(t, home, map[string]string{".ssh/id_rsa": "key\n", ".holon/x": ""})
			expect.NoError(t, unix.Mknod(filepath.Join(home, "agent.sock"), unix.S_IFSOCK|0o600, 0))
			repo, other := filepath.Join(dir, "repo"), filepath.Join(dir, "other")
			for _, made := range []string{repo, other} {
				gittest.FillRepo(t, made, map[string]string{"file": "a\n"})
			}
			gittest.Run(t, repo, "env", "REPO="+repo, "OTHER="+other, "HOME="+home,
				"ALTERNATES=.git/objects/info/alternates",
				"sh", "-ec", tc.plant)
			borrowing := Borrowing{StateHome: filepath.Join(home, ".holon")}
			for _, path := range tc.allow {
				borrowing.Allow = append(borrowing.Allow, filepath.Join(dir, path))
			}
			if tc.dir == "" {
				tc.dir = "repo"
			}
			l, err := discover(filepath.Join(dir, tc.dir), borrowing)
			if tc.code != "" {
				wantCode(t, err, tc.code)
				if e := err.(*Error); e.Hint == "" || e.Param == "" {
					t.Errorf("the error names no path or no remedy: %+v", e)
				}
				return
			}
			if err != nil || l == nil {
				t.Fatalf("layout = %+v, %v", l, err)
			}
			for i := range tc.want {
				tc.want[i] = filepath.Join(dir, tc.want[i])
			}
			if !slices.Equal(l.borrowed, tc.want) {
				t.Errorf("borrowed = %q, want %q", l.borrowed, tc.want)
			}
			for _, objects := range l.borrowed { // as git sees them
				if said := gittest.Run(t, repo, "git", "count-objects", "-v"); !strings.Contains(said,
					strings.TrimSuffix(objects, `/a"b/objects`)) {
					t.Errorf("git does not borrow from %s:\n%s", objects, said)
				}
			}
		})
	}
}

// Reading any content of a repository's files ends with a path or an error, not with a panic.
func FuzzLayoutFiles(f *testing.F) {
	for _, seed := range []string{"gitdir: ../x\n", "/a/b\n# c\n\n../d\n", `"/a\"\142c"` + "\n", `"\x2f"`, "\"",
		"a\x00b", "[core]\n\tworktree = ../..\n\tbare\n",
		"[core]\nworktree=\"a\\\n", "[include]\npath=/etc/passwd\n", strings.Repeat("../", 3000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if path, err := parsePath(data); err == nil && (path == "" || strings.ContainsAny(path, "\x00\n")) {
			t.Errorf("path = %q", path)
		}
		paths, err := parseAlternates(data)
		if err == nil && slices.ContainsFunc(paths, func(p string) bool {
			return p == "" || strings.Contains(p, "\x00")
		}) {
			t.Errorf("alternates = %q", paths)
		}
		parseSettings(string(data), func(key, _ string) {
			if !strings.Contains(key, ".") {
				t.Errorf("key = %q", key)
			}
		})
	})
}
