package patch

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"holon/agentd/tools"
	"holon/test/expect"
	"holon/test/memory"
)

var update = flag.Bool("update", false, `rewrite what corpus cases say`)

func TestMain(m *testing.M) {
	memory.Use()
	os.Exit(m.Run())
}

// corpusCase is one file below testdata/corpus/CLASS: a txtar archive.
//
// Its comment has a sentence, then lines of the form "key: value":
//
//	mistake    what the patch is an example of
//	refused    kind of the error; without it, the patch applies
//	tolerated  kinds of the diagnostics, in order
//	special    what txtar cannot hold: "fifo PATH", "link OLD NEW", "device PATH",
//	           "mode 0755 PATH"
//	git        "-p0" for git apply, or "no: " and why it does something else
//
// The files in/PATH are the tree before and out/PATH the regular files after;
// says is what the model reads. A name that ends in " quoted" holds strings of
// Go, one a line, some with " * N" behind them for repetition.
type corpusCase struct {
	class, name, file string
	archive           *txtar.Archive
	about, mistake    string
	refused, git      string
	tolerated         []string
	special           [][]string
	in, out           files
	patch, says       string
}

func corpus(t testing.TB) []*corpusCase {
	t.Helper()
	names, err := filepath.Glob("testdata/corpus/*/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	var list []*corpusCase
	for _, name := range names {
		c, err := readCase(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, c)
	}
	return list
}

func readCase(name string) (*corpusCase, error) {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		return nil, err
	}
	c := &corpusCase{class: filepath.Base(filepath.Dir(name)), name: strings.TrimSuffix(filepath.Base(name), ".txtar"),
		file: name, archive: archive, in: files{}, out: files{}}
	for i, l := range strings.Split(strings.TrimSpace(string(archive.Comment)), "\n") {
		key, value, _ := strings.Cut(l, ": ")
		switch {
		case i == 0:
			c.about = l
		case key == "mistake":
			c.mistake = value
		case key == "refused":
			c.refused = value
		case key == "tolerated":
			c.tolerated = strings.Fields(value)
		case key == "special":
			c.special = append(c.special, strings.Fields(value))
		case key == "git":
			c.git = value
		default:
			return nil, fmt.Errorf("line %q", l)
		}
	}
	for _, f := range archive.Files {
		name, quoted := strings.CutSuffix(f.Name, " quoted")
		data := string(f.Data)
		if quoted {
			if data, err = unquoted(data); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		} else if strings.HasPrefix(data, "->") {
			data = strings.TrimSuffix(data, "\n")
		}
		if path, ok := strings.CutPrefix(name, "in/"); ok {
			c.in[path] = data
		} else if path, ok := strings.CutPrefix(name, "out/"); ok {
			c.out[path] = data
		} else if name == "patch" {
			c.patch = data
		} else if name == "says" {
			c.says = data
		} else {
			return nil, fmt.Errorf("file %q", name)
		}
	}
	if c.mistake == "" || c.refused != "" && len(c.out)+len(c.tolerated) > 0 {
		return nil, fmt.Errorf("a case names its mistake, and either how it is refused or what comes of it")
	}
	return c, nil
}

func unquoted(data string) (string, error) {
	var b strings.Builder
	for l := range strings.Lines(data) {
		q, err := strconv.QuotedPrefix(l)
		if err != nil {
			return "", err
		}
		s, err := strconv.Unquote(q)
		if err != nil {
			return "", err
		}
		n := 1
		if _, times, ok := strings.Cut(l[len(q):], "* "); ok {
			if n, err = strconv.Atoi(strings.TrimSpace(times)); err != nil {
				return "", err
			}
		}
		b.WriteString(strings.Repeat(s, n))
	}
	return b.String(), nil
}

// tree makes the case's tree in dir.
func (c *corpusCase) tree(t testing.TB, dir string) {
	t.Helper()
	c.in.make(t, dir)
	for _, s := range c.special {
		path := filepath.Join(dir, s[len(s)-1])
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case s[0] == "fifo":
			err = syscall.Mkfifo(path, 0o600)
		case s[0] == "link":
			err = os.Link(filepath.Join(dir, s[1]), path)
		case s[0] == "device":
			if err = syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|3); err != nil {
				t.Skipf("a device cannot be made here: %v", err)
			}
		case s[0] == "mode":
			var mode uint64
			if mode, err = strconv.ParseUint(s[1], 8, 32); err == nil {
				err = os.Chmod(path, fs.FileMode(mode))
			}
		default:
			t.Fatalf("special %q", s)
		}
		expect.NoError(t, err)
	}
}

// digest is everything about a tree that a refused patch must leave alone.
func digest(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for name, data := range read(t, dir) {
		path := filepath.Join(dir, strings.TrimSuffix(name, "!"))
		fi, err := os.Lstat(path)
		expect.NoError(t, err)
		st := fi.Sys().(*syscall.Stat_t)
		got[name] = fmt.Sprintf("%v %d:%d inode %d, %d links, %v\n%s", fi.Mode(), st.Uid, st.Gid, st.Ino, st.Nlink,
			fi.ModTime(), data)
	}
	return got
}

// want is the tree that the case says comes of it.
func (c *corpusCase) want(before files) files {
	want := files{}
	for name, data := range before {
		if data == "special" || strings.HasPrefix(data, "->") || strings.HasSuffix(name, "/") {
			want[name] = data
		}
	}
	for name, data := range c.out {
		want[name] = data
	}
	return want
}

func TestCorpus(t *testing.T) {
	tool, err := New()
	expect.NoError(t, err)
	for _, c := range corpus(t) {
		t.Run(c.class+"/"+c.name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "tree")
			files{"secret": "secret\n"}.make(t, outer)
			expect.NoError(t, os.Mkdir(dir, 0o755))
			c.tree(t, dir)
			before, beforeAll := read(t, dir), digest(t, outer)
			res, bad := apply(t.Context(), dir, c.patch)
			var says string
			if bad != nil {
				if c.refused == "" {
					t.Errorf("refused")
				} else if bad.Kind != c.refused {
					t.Errorf("%s, want %s", bad.Kind, c.refused)
				}
				if bad.RecoveryHint == "" || bad.Message == "" {
					t.Errorf("the error says too little: %+v", bad)
				}
				if diff := cmp.Diff(beforeAll, digest(t, outer)); diff != "" {
					t.Errorf("refused, but changed:\n%s", diff)
				}
				says = tools.Refuse(name, bad).Rendered
			} else {
				expect.Equal(t, "accepted", c.refused, "")
				if diff := cmp.Diff(c.want(before), read(t, dir)); diff != "" {
					t.Errorf("tree:\n%s", diff)
				}
				var kinds []string
				for _, d := range res.Diagnostics {
					kinds = append(kinds, d.Kind)
				}
				if !slices.Equal(kinds, c.tolerated) {
					t.Errorf("tolerated %v, want %v", kinds, c.tolerated)
				}
				expect.Equal(t, "outside", read(t, outer)["secret"], "secret\n")
				data, err := json.Marshal(res)
				expect.NoError(t, err)
				says = tool.Render(tools.Result{Result: data}, tools.RenderPolicy{})
			}
			c.golden(t, strings.ReplaceAll(says, dir, "$TREE")+"\n")
		})
	}
}

// golden compares what the model reads with what the case has.
func (c *corpusCase) golden(t *testing.T, says string) {
	t.Helper()
	if says == c.says {
		return
	}
	if !*update || t.Failed() {
		t.Errorf("says:\n%s", cmp.Diff(c.says, says))
		return
	}
	c.archive.Files = slices.DeleteFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == "says" })
	c.archive.Files = append(c.archive.Files, txtar.File{Name: "says", Data: []byte(says)})
	expect.NoError(t, os.WriteFile(c.file, txtar.Format(c.archive), 0o644))
}

// What is valid, git applies to the same effect.
func TestValidAsGitDoes(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	for _, c := range corpus(t) {
		if c.class != "valid" || strings.HasPrefix(c.git, "no: ") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.tree(t, dir)
			before := read(t, dir)
			cmd := exec.Command(git, "apply", "--whitespace=nowarn")
			if c.git != "" {
				cmd.Args = append(cmd.Args, strings.Fields(c.git)...)
			}
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(c.patch)
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null",
				"GIT_CONFIG_SYSTEM=/dev/null")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if diff := cmp.Diff(c.want(before), read(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
