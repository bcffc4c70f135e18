package skills

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/visible"
	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParse(t *testing.T) {
	const ok = "name: a\ndescription: b\n"
	for _, tc := range []struct {
		name, text string
		want       frontMatter
		code       problemCode // empty: no error
		field      string
	}{
		{name: "plain", text: "---\nname: pdf-forms\ndescription: Fill in forms.\n---\nbody\n",
			want: frontMatter{Name: "pdf-forms", Description: "Fill in forms."}},
		{name: "other keys", text: "---\nlicense: MIT\nname: a\nmetadata: {x: [1, 2]}\ndescription: b\n---\n",
			want: frontMatter{Name: "a", Description: "b"}},
		{name: "crlf", text: "---\r\nname: a\r\ndescription: b\r\n---\r\n",
			want: frontMatter{Name: "a", Description: "b"}},
		{name: "byte order mark", text: "\xef\xbb\xbf---\n" + ok + "---",
			want: frontMatter{Name: "a", Description: "b"}},
		{name: "space after the fence", text: "--- \n" + ok + "---\t\n",
			want: frontMatter{Name: "a", Description: "b"}},
		{name: "folded description", text: "---\nname: a\ndescription: >\n  one\n  two\n\n  three\n---\n",
			want: frontMatter{Name: "a", Description: "one two three"}},
		{name: "what can't be seen is left out",
			text: "---\nname: a\ndescription: \"x\\u202ey \\e[31mz\\u0000\"\n---\n",
			want: frontMatter{Name: "a", Description: "xy z"}},
		{name: "number as name", text: "---\nname: 7\ndescription: b\n---\n",
			want: frontMatter{Name: "7", Description: "b"}},
		{name: "fence in the body", text: "---\n" + ok + "---\n---\nname: x\n",
			want: frontMatter{Name: "a", Description: "b"}},
		{name: "empty", text: "", code: "skill_invalid"},
		{name: "no front matter", text: "# Title\n", code: "skill_invalid"},
		{name: "only a fence", text: "---", code: "skill_invalid"},
		{name: "blank lines first", text: "\n \n---\n" + ok + "---\n", want: frontMatter{Name: "a", Description: "b"}},
		{name: "colons", text: "---\nname: a\nlicense: x: y\ndescription: Use: it's \"b: c\" \n---\n",
			want: frontMatter{Name: "a", Description: `Use: it's "b: c"`}},
		{name: "no end", text: "---\n" + ok, code: "skill_invalid"},
		{name: "four dashes", text: "---\n" + ok + "----\n", code: "skill_invalid"},
		{name: "too large", text: "---\n" + ok + strings.Repeat("# comment\n", 7000) + "---\n",
			code: "skill_too_large"},
		{name: "not yaml", text: "---\nname: a\ndescription: \"b\n---\n", code: "skill_invalid"},
		{name: "a list", text: "---\n- name\n---\n", code: "skill_invalid", field: "name"},
		{name: "no keys", text: "---\n---\n", code: "skill_invalid", field: "name"},
		{name: "no name", text: "---\ndescription: b\n---\n", code: "skill_invalid", field: "name"},
		{name: "name null", text: "---\nname:\ndescription: b\n---\n", code: "skill_invalid", field: "name"},
		{name: "name is a list", text: "---\nname: [a]\ndescription: b\n---\n", code: "skill_invalid",
			field: "name"},
		{name: "name twice", text: "---\nname: a\nname: b\ndescription: b\n---\n", code: "skill_invalid",
			field: "name"},
		{name: "name is a path", text: "---\nname: ../a\ndescription: b\n---\n", code: "skill_invalid",
			field: "name"},
		{name: "name with a space", text: "---\nname: a b\ndescription: b\n---\n", code: "skill_invalid",
			field: "name"},
		{name: "long name", text: "---\nname: " + strings.Repeat("a", 65) + "\ndescription: b\n---\n",
			code: "skill_invalid", field: "name"},
		{name: "no description", text: "---\nname: a\n---\n", code: "skill_invalid", field: "description"},
		{name: "description of spaces", text: "---\nname: a\ndescription: \"  \\n \"\n---\n",
			code: "skill_invalid", field: "description"},
		{name: "long description", text: "---\nname: a\ndescription: " + strings.Repeat("x", 1025) + "\n---\n",
			code: "skill_invalid", field: "description"},
		{name: "alias", text: "---\nx: &x a\nname: *x\ndescription: b\n---\n", code: "skill_invalid",
			field: "name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parsed([]byte(tc.text))
			if tc.code == "" {
				if err != nil || got != tc.want {
					t.Fatalf("%+v, %v; want %+v", got, err, tc.want)
				}
				return
			}
			p, ok := errors.AsType[*InvalidSkill](err)
			if !ok || p.Code != tc.code || p.Field != tc.field || p.Hint == "" || strings.Contains(p.Error(), "\n") {
				t.Fatalf("error = %#v, want the code %s, the field %q and a hint", err, tc.code, tc.field)
			}
		})
	}
}

// The result of parsing any file is bounded and safe to show.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"---\nname: a\ndescription: b\n---\n", "---\nname: \"a\\u0000\"\ndescription: |\n  b\n  c\n---\n",
		"---\n&a [*a]\n---\n", "---\n? {a: b}\n: c\nname: !!binary aGk=\n---",
		"---\n<<: *x\n---\n", "---\n- - - - -\n---\n", "---\n%YAML 1.2\n---\n",
		"---\nname: a\ndescription: \x1b[31m\n---\n", "---\r\n---\r\n", "---\n\"name\": a\n!!str description: b\n---\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		front, err := parsed(text)
		if err != nil {
			switch p, ok := errors.AsType[*InvalidSkill](err); {
			case !ok:
				t.Fatalf("error = %#v", err)
			case p.Code == "":
				t.Fatal(`p.Code = "", want another value`)
			case p.Hint == "":
				t.Fatal(`p.Hint = "", want another value`)
			case p.Message == "":
				t.Fatal(`p.Message = "", want another value`)
			}
			return
		}
		if front.Name == "" || len(front.Name) > 64 || strings.ContainsAny(front.Name, "/\\ \n") || front.Name[0] == '.' {
			t.Fatalf("the name is %q", front.Name)
		}
		if front.Description == "" || len([]rune(front.Description)) > 1024 ||
			strings.ContainsFunc(front.Description, visible.Hidden) {
			t.Fatalf("description %q", front.Description)
		}
	})
}

func TestDiscover(t *testing.T) {
	root := filepath.Join(t.TempDir(), "skills")
	outside := t.TempDir()
	addSkill(t, root, "zeta", "last")
	addSkill(t, root, "alpha", "first")
	addSkill(t, root, ".hidden", "not seen")
	addSkill(t, outside, "outside", "must not be read")
	write(t, filepath.Join(root, "README.md"), "a plain file")
	write(t, filepath.Join(root, "empty", "notes.txt"), "no skill")
	write(t, filepath.Join(root, "lower", "skill.md"), "wrong case")
	write(t, filepath.Join(root, "renamed", "SKILL.md"), "---\nname: other\ndescription: b\n---\n")
	write(t, filepath.Join(root, "nofront", "SKILL.md"), "# hello\n")
	mustMkdir(t, filepath.Join(root, "linkfile"), filepath.Join(root, "pipe"),
		filepath.Join(root, "folder", "SKILL.md"), filepath.Join(root, "socket"))
	for link, target := range map[string]string{
		"linkfile/SKILL.md": filepath.Join(outside, "outside", "SKILL.md"),
		"outside":           filepath.Join(outside, "outside"),
		"relative":          "../../" + filepath.Base(filepath.Dir(outside)) + "/x",
		"dangling":          "nowhere",
		"loop":              "loop",
		"tofile":            "README.md",
	} {
		expect.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	expect.NoError(t, errors.Join(unix.Mkfifo(filepath.Join(root, "pipe", "SKILL.md"), 0o600),
		unix.Mknod(filepath.Join(root, "socket", "SKILL.md"), unix.S_IFSOCK|0o600, 0)))

	found, problems := discoverIn(root)
	want := []Skill{
		{Name: "alpha", Description: "first", Path: filepath.Join(root, "alpha", "SKILL.md")},
		{Name: "renamed", Description: "b", Path: filepath.Join(root, "renamed", "SKILL.md")},
		{Name: "zeta", Description: "last", Path: filepath.Join(root, "zeta", "SKILL.md")},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	got := map[string]problemCode{}
	for _, p := range problems {
		got[filepath.Base(filepath.Dir(p.Path))] = p.Code
		if p.Hint == "" || p.Message == "" {
			t.Errorf("%v has no remedy", &p)
		}
	}
	wantProblems := map[string]problemCode{
		"empty": "skill_file_missing", "lower": "skill_file_missing", "tofile": "skill_file_missing",
		"nofront":  "skill_invalid",
		"linkfile": "skill_unsafe", "outside": "skill_unsafe", "relative": "skill_unsafe",
		"pipe": "skill_unsafe", "folder": "skill_unsafe", "socket": "skill_unsafe",
		"dangling": "skill_unreadable", "loop": "skill_unreadable",
	}
	if diff := cmp.Diff(wantProblems, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestDiscoverRoot(t *testing.T) {
	if found, problems := discoverIn(filepath.Join(t.TempDir(), "absent")); found != nil || problems != nil {
		t.Errorf("absent root: %v, %v", found, problems)
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	if found, problems := discoverIn(file); found != nil || len(problems) != 1 || problems[0].Code != "skill_unreadable" {
		t.Errorf("a file as root: %+v, %+v", found, problems)
	}
}

func TestDiscoverIsBounded(t *testing.T) {
	root := t.TempDir()
	for i := range 300 {
		addSkill(t, root, "skill-"+string(rune('a'+i/26))+string(rune('a'+i%26)), "x")
	}
	found, problems := discoverIn(root)
	if len(found) != 256 || len(problems) != 1 || problems[0].Code != "skill_too_large" {
		t.Errorf("%d skills, problems %+v, want 256 and one", len(found), problems)
	}
}

func TestCatalogue(t *testing.T) {
	if got := Catalogue(nil); got != "" {
		t.Errorf("no skills: %q", got)
	}
	got := Catalogue([]Skill{{Name: "a", Description: "Does a.", Path: "/holon/skills/a/SKILL.md"},
		{Name: "b", Description: "Does b.", Path: "/holon/skills/b/SKILL.md"}})
	const want = "- a: Does a. (/holon/skills/a/SKILL.md)\n- b: Does b. (/holon/skills/b/SKILL.md)\n"
	if !strings.HasSuffix(got, want) || !strings.HasPrefix(got, "# Skills\n") {
		t.Errorf("catalogue:\n%s", got)
	}
}

func addSkill(t *testing.T, root, name, description string) {
	t.Helper()
	write(t, filepath.Join(root, name, "SKILL.md"),
		"---\nname: "+name+"\ndescription: "+description+"\n---\nThe body of "+name+".\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	mustMkdir(t, filepath.Dir(path))
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func mustMkdir(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		expect.NoError(t, os.MkdirAll(path, 0o755))
	}
}

// parsed returns the problem as an error, nil without one.
func parsed(text []byte) (frontMatter, error) {
	front, problem := parse(text, File)
	if problem != nil {
		return front, problem
	}
	return front, nil
}
