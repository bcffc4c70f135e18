package git

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"holon/internal/folder"
	"holon/test/expect"

	gogitindex "github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/google/go-cmp/cmp"
)

func sample() []Entry {
	id := func(c byte) string { return strings.Repeat(string(rune(c)), 20) }
	return []Entry{
		{Path: "a", Mode: modeFile, Oid: id(1),
			Stat: folder.Stat{CtimeSec: 1, CtimeNsec: 2, MtimeSec: 3, MtimeNsec: 4, Dev: 5, Ino: 6, Uid: 7,
				Gid: 8, Size: 9}},
		{Path: "a/\xff\nb", Mode: modeExecutable, Oid: id(2)},
		{Path: "l", Mode: ModeSymlink, Oid: id(3)},
		{Path: "m", Mode: ModeSubmodule, Oid: id(4)},
		{Path: strings.Repeat("x", 5000), Mode: modeFile, Oid: id(5)},
	}
}

func TestIndexRoundTrip(t *testing.T) {
	t.Parallel()
	got, rest := DecodeIndex(SHA1, append(EncodeIndex(SHA1, sample()), "rest"...))
	if string(rest) != "rest" {
		t.Errorf("what follows is %q, want %q", rest, "rest")
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Error(diff)
	}
}

// An implementation that isn't ours reads the index as it was meant.
func TestIndexIsRead(t *testing.T) {
	t.Parallel()
	var got gogitindex.Index
	expect.NoError(t, gogitindex.NewDecoder(bytes.NewReader(EncodeIndex(SHA1, sample()))).Decode(&got))
	if len(got.Entries) != len(sample()) {
		t.Fatalf("%d entries", len(got.Entries))
	}
	for i, want := range sample() {
		e := got.Entries[i]
		stat := folder.Stat{CtimeSec: uint32(e.CreatedAt.Unix()), CtimeNsec: uint32(e.CreatedAt.Nanosecond()),
			MtimeSec: uint32(e.ModifiedAt.Unix()), MtimeNsec: uint32(e.ModifiedAt.Nanosecond()),
			Dev: e.Dev, Ino: e.Inode, Uid: e.UID, Gid: e.GID, Size: e.Size}
		if want.Stat == (folder.Stat{}) { // which is a time to go-git
			stat = want.Stat
		}
		if e.Name != want.Path || uint32(e.Mode) != want.Mode || string(e.Hash[:]) != want.Oid || stat != want.Stat {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}
}

func FuzzParseTree(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add([]byte("100644 blob " + id + "\ta\x00120000 blob " + id + "\tb/c\x00"))
	f.Add([]byte("160000 commit " + id + "\tm\x00"))
	f.Add([]byte("100644 blob " + id + "\t../x\x00"))
	f.Add([]byte("100644 blob " + id + "\t.git/config\x00"))
	f.Add([]byte("100644 blob ab\ta\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		entries, err := ParseTree(SHA1, out, "sub")
		if err != nil {
			return
		}
		for _, e := range entries {
			if err := CheckPath(e.Path); err != nil || len(e.Oid) != 20 || !strings.HasPrefix(e.Path, "sub/") {
				t.Fatalf("accepted %+v: %v", e, err)
			}
		}
	})
}

func TestParseTreeRefuses(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 20)
	for _, line := range []string{
		"100644 blob " + id + "\t../x", "100644 blob " + id + "\t/x", "100644 blob " + id + "\ta//x",
		"100644 blob " + id + "\ta/./x",
		"100644 blob " + id + "\t.git/x", "100644 blob " + id + "\ta/.GIT", "100644 blob " + id + "\t",
		"100644 blob " + id, "100644 blob zz\ta",
		"100648 blob " + id + "\ta", "040000 tree " + id + "\ta",
		"100644 blob " + id + "\ta\x00100644 blob " + id + "\ta",
	} {
		if entries, err := ParseTree(SHA1, []byte(line+"\x00"), ""); err == nil {
			t.Errorf("%q was accepted: %+v", line, entries)
		}
	}
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
		if refused && CheckPath("dir/"+name) == nil {
			t.Fatalf("git refuses %q (%x), checkPath accepts it", name, name)
		}
	})
}

func TestEmptyTree(t *testing.T) {
	t.Parallel()
	for format, want := range map[ObjectFormat]string{SHA1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
		SHA256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"} {
		if got := format.EmptyTree(); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
	oid, err := SHA1.BlobID(6, strings.NewReader("hello\n"))
	if err != nil || hex.EncodeToString([]byte(oid)) != "ce013625030ba8dba906f756967f9e9ca394464a" {
		t.Errorf("blob id = %x, %v", oid, err)
	}
	for _, size := range []int64{5, 7} {
		if _, err := SHA1.BlobID(size, strings.NewReader("hello\n")); err == nil {
			t.Errorf("6 bytes passed for %d", size)
		}
	}
}
