package workspace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	gogitindex "github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/google/go-cmp/cmp"
)

func sample() []entry {
	id := func(c byte) string { return strings.Repeat(string(rune(c)), 20) }
	return []entry{
		{path: "a", mode: modeFile, oid: id(1), stat: fileStat{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{path: "a/\xff\nb", mode: modeExecutable, oid: id(2)},
		{path: "l", mode: modeSymlink, oid: id(3)},
		{path: "m", mode: modeSubmodule, oid: id(4)},
		{path: strings.Repeat("x", 5000), mode: modeFile, oid: id(5)},
	}
}

func TestIndexRoundTrip(t *testing.T) {
	data := encodeIndex(formatSHA1, sample())
	got, rest, err := decodeIndex(formatSHA1, append(data, "rest"...))
	if err != nil || string(rest) != "rest" {
		t.Fatalf("rest = %q, %v", rest, err)
	}
	if diff := cmp.Diff(sample(), got, cmp.AllowUnexported(entry{}, fileStat{})); diff != "" {
		t.Fatal(diff)
	}
	for i := range data { // any damage is noticed
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x41
		if entries, _, err := decodeIndex(formatSHA1, damaged); err == nil {
			t.Fatalf("damage at byte %d went unnoticed: %+v", i, entries)
		}
		if _, _, err := decodeIndex(formatSHA1, data[:i]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", i, len(data))
		}
	}
}

// An implementation that isn't ours reads the index as it was meant.
func TestIndexIsRead(t *testing.T) {
	var got gogitindex.Index
	if err := gogitindex.NewDecoder(bytes.NewReader(encodeIndex(formatSHA1, sample()))).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if len(got.Entries) != len(sample()) {
		t.Fatalf("%d entries", len(got.Entries))
	}
	for i, want := range sample() {
		e := got.Entries[i]
		stat := fileStat{uint32(e.CreatedAt.Unix()), uint32(e.CreatedAt.Nanosecond()), uint32(e.ModifiedAt.Unix()),
			uint32(e.ModifiedAt.Nanosecond()),
			e.Dev, e.Inode, e.UID, e.GID, e.Size}
		if want.stat == (fileStat{}) { // which is a time to go-git
			stat = want.stat
		}
		if e.Name != want.path || uint32(e.Mode) != want.mode || string(e.Hash[:]) != want.oid || stat != want.stat {
			t.Errorf("%+v was read as %+v", want, e)
		}
	}
}

func FuzzDecodeIndex(f *testing.F) {
	f.Add(encodeIndex(formatSHA1, nil))
	f.Add(encodeIndex(formatSHA1, sample()))
	f.Add([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, rest, err := decodeIndex(formatSHA1, data)
		if err != nil {
			return
		}
		again := encodeIndex(formatSHA1, entries)
		back, _, err := decodeIndex(formatSHA1, again)
		if err != nil || !slices.Equal(entries, back) || len(again)+len(rest) > len(data)+8*len(entries) {
			t.Fatalf("%d entries do not survive: %v", len(entries), err)
		}
	})
}

func FuzzParseTree(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add([]byte("100644 blob " + id + "\ta\x00120000 blob " + id + "\tb/c\x00"))
	f.Add([]byte("160000 commit " + id + "\tm\x00"))
	f.Add([]byte("100644 blob " + id + "\t../x\x00"))
	f.Add([]byte("100644 blob " + id + "\t.git/config\x00"))
	f.Add([]byte("100644 blob ab\ta\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		entries, err := parseTree(formatSHA1, out, "sub")
		if err != nil {
			return
		}
		for _, e := range entries {
			if err := checkPath(e.path); err != nil || len(e.oid) != 20 || !strings.HasPrefix(e.path, "sub/") {
				t.Fatalf("accepted %+v: %v", e, err)
			}
		}
	})
}

func TestParseTreeRefuses(t *testing.T) {
	id := strings.Repeat("ab", 20)
	for _, line := range []string{
		"100644 blob " + id + "\t../x", "100644 blob " + id + "\t/x", "100644 blob " + id + "\ta//x",
		"100644 blob " + id + "\ta/./x",
		"100644 blob " + id + "\t.git/x", "100644 blob " + id + "\ta/.GIT", "100644 blob " + id + "\t",
		"100644 blob " + id, "100644 blob zz\ta",
		"100648 blob " + id + "\ta", "040000 tree " + id + "\ta",
		"100644 blob " + id + "\ta\x00100644 blob " + id + "\ta",
	} {
		if entries, err := parseTree(formatSHA1, []byte(line+"\x00"), ""); err == nil {
			t.Errorf("%q was accepted: %+v", line, entries)
		}
	}
}

func FuzzParseChanges(f *testing.F) {
	zero, id := strings.Repeat("0", 40), strings.Repeat("ab", 20)
	f.Add([]byte(":100644 100644 " + id + " " + id + " M\x00a\x00:000000 100644 " + zero + " " + id +
		" A\x00b\n\x00:100644 100755 " + id + " " + id +
		" R086\x00c\x00d\x001\t2\ta\x00-\t-\tb\n\x000\t0\t\x00c\x00d\x00"))
	f.Add([]byte(":100644 000000 " + id + " " + zero + " D\x00a\x000\t1\ta\x00"))
	f.Add([]byte(":\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, out []byte) {
		changes, err := parseChanges(out)
		if err != nil {
			return
		}
		for _, c := range changes {
			if c.Path == "" || c.Status == "" || (c.Status == "renamed") != (c.From != "") && c.From != "" {
				t.Fatalf("accepted %+v", c)
			}
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("# branch.oid (initial)\x00# branch.head main\x00? new\x00? nested/\x001 .M S.MU 160000 160000 " +
		"160000 a b lib x\x00u UU N... 1 2 3 4 a b c path\x00"))
	f.Add([]byte("1 \x00?\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		s := parseStatus(out)
		if (len(s.untracked)+len(s.nested)+len(s.submodules) > 0) && !s.dirty {
			t.Fatalf("changes but not dirty: %+v", s)
		}
	})
}

func FuzzParseNames(f *testing.F) {
	f.Add([]byte("1\t2\ta\x00-\t-\tb\tc\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, out []byte) {
		names, err := parseNames(out)
		if err == nil && slices.Contains(names, "") {
			t.Fatalf("accepted %q", names)
		}
	})
}

// Every name that git refuses as a component is refused here too, because one
// such name would make a whole patch unusable.
func FuzzDotGit(f *testing.F) {
	for _, name := range []string{".git", ".GIT", ".gIt ", ".git.", ".git...", "git~1", "GIT~1", "git~1 .", ".git:x",
		".git::$INDEX_ALLOCATION", "git~1:x",
		".g\u200cit", "\u200d.git", ".git\ufeff", ".gi\u202et", `.git\x`, `x\.git`, `x\git~1`, ".gitx", "git~2", "git",
		"..", ".", ".git .x", "ſ", ".gİt",
		".git\x95", ".git\ufffex", ".g\u200cit\xff", ".gitmodules", ".gıt", " .git", ".git\x00", "a:.git"} {
		f.Add(name)
	}
	repo := f.TempDir()
	if err := exec.Command("git", "init", "-q", repo).Run(); err != nil {
		f.Skip("git is needed")
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || strings.ContainsAny(name, "/\x00\n") || len(name) > 250 || strings.HasPrefix(name, `"`) {
			return
		}
		cmd := exec.Command("git", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "update-index", "--add",
			"--index-info")
		cmd.Dir = repo
		cmd.Stdin = strings.NewReader(fmt.Sprintf("100644 %s 0\tdir/%s\n", strings.Repeat("1", 40), name))
		out, _ := cmd.CombinedOutput() // refused paths are ignored with a message
		refused := bytes.Contains(out, []byte("Ignoring path")) || bytes.Contains(out, []byte("Invalid path"))
		if refused && checkPath("dir/"+name) == nil {
			t.Fatalf("git refuses %q (%x), checkPath accepts it", name, name)
		}
	})
}

func FuzzQuotePath(f *testing.F) {
	for _, path := range []string{"a", "a b", "\"", "\\", "\n\t\x01\x7f\x80\xff", "ü", "\\n", "7\x007"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if got := unquote(t, quotePath(path)); got != path {
			t.Fatalf("%q came back as %q", path, got)
		}
	})
}

// unquote reads git's C-style quoting as git does.
func unquote(t *testing.T, quoted string) string {
	var path []byte
	inner := quoted[1 : len(quoted)-1]
	for i := 0; i < len(inner); i++ {
		switch {
		case inner[i] == '"' || inner[i] < ' ' || inner[i] >= 0x7f:
			t.Fatalf("%q holds a raw %q", quoted, inner[i])
		case inner[i] != '\\':
			path = append(path, inner[i])
		case inner[i+1] == '"' || inner[i+1] == '\\':
			i++
			path = append(path, inner[i])
		default:
			path = append(path, (inner[i+1]-'0')<<6|(inner[i+2]-'0')<<3|(inner[i+3]-'0'))
			i += 3
		}
	}
	return string(path)
}

func TestEmptyTree(t *testing.T) {
	for format, want := range map[objectFormat]string{formatSHA1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
		formatSHA256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"} {
		if got := format.emptyTree(); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
	oid, err := formatSHA1.blobID(6, strings.NewReader("hello\n"))
	if err != nil || hex.EncodeToString([]byte(oid)) != "ce013625030ba8dba906f756967f9e9ca394464a" {
		t.Errorf("blob id = %x, %v", oid, err)
	}
	for _, size := range []int64{5, 7} {
		if _, err := formatSHA1.blobID(size, strings.NewReader("hello\n")); err == nil {
			t.Errorf("6 bytes passed for %d", size)
		}
	}
}
