package transfer_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/internal/transfer"
)

// tree makes files: a name that ends in / is a directory, content that begins with -> a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	check(t, os.Mkdir(dir, 0o755))
	for name, content := range files {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch target, isLink := strings.CutPrefix(content, "->"); {
		case strings.HasSuffix(name, "/"):
			check(t, os.MkdirAll(path, 0o755))
		case isLink:
			check(t, os.Symlink(target, path))
		default:
			check(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listing is what a directory has, as tree takes it.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			files[name+"/"] = ""
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			files[name] = "->" + target
			return err
		default:
			content, err := os.ReadFile(path)
			files[name] = string(content)
			return err
		}
		return nil
	}))
	return files
}

func pack(t *testing.T, dir string) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	check(t, errors.Join(transfer.Pack(t.Context(), tw, dir, "/top", nil, false), tw.Close()))
	return &out
}

func TestRoundTrip(t *testing.T) {
	from := tree(t, map[string]string{"a": "one", "d/": "", "d/e/f": strings.Repeat("x", 200_000), "empty": "",
		"link": "->d/e/f", "out": "->/etc/passwd", "dir": "->d", strings.Repeat("n", 255): "long", "caf\xe9/": "", "caf\xe9/in": "no UTF-8"})
	check(t, os.Link(filepath.Join(from, "a"), filepath.Join(from, "second")))
	check(t, os.Chmod(filepath.Join(from, "a"), 0o755))
	to := tree(t, map[string]string{"a": "two", "d": "a file", "e/": "", "e/gone": "", "link/": "", "dir/": "",
		"dir/x": "inside", "empty": "->/etc/passwd", "d\xe9/": "", "d\xe9/gone": ""})
	check(t, transfer.Unpack(t.Context(), pack(t, from), to, transfer.Limits{}, nil))
	got, want := listing(t, to), listing(t, from)
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%.40s is %.40q, want %.40q", name, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("these are too many: %q", got)
	}
	if info, err := os.Stat(filepath.Join(to, "a")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode is not kept: %v, %v", info.Mode(), err)
	}
}

// What belongs to others than the users of a program becomes that of the directory's owner, if that is one of them.
func TestPackOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := tree(t, map[string]string{"root/": "", "root/f": "", "server": ""})
	check(t, errors.Join(os.Chown(dir, 1001, 1002), os.Chown(filepath.Join(dir, "server"), 1003, 1004)))
	for name, test := range map[string]struct {
		users []int
		want  map[string]int
	}{
		"users":       {[]int{1001, 1003}, map[string]int{"top": 1001, "top/root": 1001, "top/root/f": 1001, "top/server": 1003}},
		"other users": {[]int{1005}, map[string]int{"top": 1001, "top/root": 0, "top/root/f": 0, "top/server": 1003}},
		"no users":    {nil, map[string]int{"top": 1001, "top/root": 0, "top/root/f": 0, "top/server": 1003}},
	} {
		var out bytes.Buffer
		tw := tar.NewWriter(&out)
		check(t, errors.Join(transfer.Pack(t.Context(), tw, dir, "/top", nil, false, test.users...), tw.Close()))
		got := map[string]int{}
		for tr := tar.NewReader(&out); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			check(t, err)
			got[strings.TrimSuffix(h.Name, "/")] = h.Uid
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: owners %v, want %v", name, got, test.want)
		}
	}
}

// A path that an engine could not unpack is left out, on both sides.
func TestLongPaths(t *testing.T) {
	from := tree(t, map[string]string{"a": "one"})
	root, err := os.OpenRoot(from)
	check(t, err)
	defer root.Close()
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 25)
	check(t, errors.Join(root.MkdirAll(deep, 0o700), root.WriteFile(deep+"f", nil, 0o600)))
	to := tree(t, nil)
	check(t, transfer.Unpack(t.Context(), pack(t, from), to, transfer.Limits{}, nil))
	got, err := transfer.List(t.Context(), to, nil, 0)
	check(t, err)
	want, err := transfer.List(t.Context(), from, nil, 0)
	check(t, err)
	if len(got) != len(want) || got["a"].Size != 3 {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	check(t, transfer.Unpack(t.Context(), pack(t, to), from, transfer.Limits{}, nil))
	if _, err := root.Lstat(deep + "f"); err != nil {
		t.Errorf("what is left out is removed: %v", err)
	}
}

// The directory that all names begin with may have none.
func TestNoTopName(t *testing.T) {
	var data bytes.Buffer
	tw := tar.NewWriter(&data)
	for _, h := range []tar.Header{{Name: "/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "/d/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "/d/a", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "/b", Typeflag: tar.TypeLink, Linkname: "/d/a"}} {
		check(t, tw.WriteHeader(&h))
	}
	check(t, tw.Close())
	dir := tree(t, map[string]string{"gone": ""})
	check(t, transfer.Unpack(t.Context(), &data, dir, transfer.Limits{}, nil))
	if got := listing(t, dir); len(got) != 3 || got["d/"]+got["d/a"]+got["b"] != "" {
		t.Errorf("the directory has %q", got)
	}
}

func TestWhatIsTheSameStays(t *testing.T) {
	from := tree(t, map[string]string{"same": "content", "other": "content"})
	to := tree(t, map[string]string{"same": "content", "other": "contents"})
	at := time.Unix(1_700_000_000, 123456789)
	for _, dir := range []string{from, to} {
		check(t, os.Chtimes(filepath.Join(dir, "same"), at, at))
	}
	before, err := os.Stat(filepath.Join(to, "same"))
	check(t, err)
	check(t, transfer.Unpack(t.Context(), pack(t, from), to, transfer.Limits{}, nil))
	after, err := os.Stat(filepath.Join(to, "same"))
	check(t, err)
	if !os.SameFile(before, after) || !after.ModTime().Equal(at) {
		t.Errorf("a file that is the same was written again: %v", after.ModTime())
	}
	if got := listing(t, to)["other"]; got != "content" {
		t.Errorf("a file that is not the same is %q", got)
	}
}

func TestHostileTars(t *testing.T) {
	file := func(name, content string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
	}
	top := tar.Header{Name: "top/", Typeflag: tar.TypeDir, Mode: 0o755}
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}
	}
	tests := map[string][]tar.Header{
		"a parent that is a link": {top, link("top/d", ".."), file("top/d/escaped", "x")},
		"an absolute link":        {top, link("top/d", "OUTSIDE"), file("top/d/escaped", "x")},
		"a hard link outside": {top, link("top/l", "OUTSIDE/victim"),
			{Name: "top/h", Typeflag: tar.TypeLink, Linkname: "top/l"}},
		"a hard link to no file": {top, {Name: "top/h", Typeflag: tar.TypeLink, Linkname: "top/../../victim"}},
		"a file for its parent":  {top, file("top/d", "x"), file("top/d/e", "x")},
		"no name and upwards":    {file("//../escaped", "x")},
		"a name and upwards":     {top, file("top/../../escaped", "x")},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			outside := tree(t, map[string]string{"victim": "whole"})
			dir := filepath.Join(outside, "tree")
			check(t, os.Mkdir(dir, 0o755))
			var data bytes.Buffer
			tw := tar.NewWriter(&data)
			for _, h := range headers {
				h.Linkname = strings.Replace(h.Linkname, "OUTSIDE", outside, 1)
				check(t, tw.WriteHeader(&h))
				_, err := tw.Write(bytes.Repeat([]byte("x"), int(h.Size)))
				check(t, err)
			}
			check(t, tw.Close())
			if err := transfer.Unpack(t.Context(), &data, dir, transfer.Limits{}, nil); err == nil {
				t.Error("no error")
			}
			if got := listing(t, outside); got["victim"] != "whole" || got["escaped"] != "" {
				t.Errorf("files outside are %q", got)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	from := tree(t, map[string]string{"a": "0123456789", "b": "0123456789"})
	for _, limits := range []transfer.Limits{{Bytes: 19}, {Files: 2}} {
		err := transfer.Unpack(t.Context(), pack(t, from), tree(t, nil), limits, nil)
		if _, ok := errors.AsType[*transfer.TooMuchError](err); !ok {
			t.Errorf("%+v: %v", limits, err)
		}
	}
	check(t, transfer.Unpack(t.Context(), pack(t, from), tree(t, nil), transfer.Limits{Bytes: 20, Files: 3}, nil))
	check(t, os.Truncate(filepath.Join(from, "a"), 8<<20))
	to := tree(t, nil)
	check(t, transfer.Unpack(t.Context(), pack(t, from), to, transfer.Limits{Bytes: 2 << 20}, nil))
	info, err := os.Stat(filepath.Join(to, "a"))
	check(t, err)
	if blocks := info.Sys().(*syscall.Stat_t).Blocks; info.Size() != 8<<20 || blocks*512 > 1<<20 {
		t.Errorf("a file with a hole has %d bytes and %d blocks", info.Size(), blocks)
	}
}

func TestKindsOfFiles(t *testing.T) {
	to := tree(t, map[string]string{"pipe": "was a file"})
	var data bytes.Buffer
	tw := tar.NewWriter(&data)
	for _, h := range []tar.Header{{Name: "top/", Typeflag: tar.TypeDir, Mode: 0},
		{Name: "top/pipe", Typeflag: tar.TypeFifo, Mode: 0o644}, {Name: "top/null", Typeflag: tar.TypeChar, Devmajor: 1,
			Devminor: 3}, {Name: "top/set", Typeflag: tar.TypeReg, Mode: 0o6755}} {
		check(t, tw.WriteHeader(&h))
	}
	check(t, tw.Close())
	check(t, transfer.Unpack(t.Context(), &data, to, transfer.Limits{}, nil))
	if got := listing(t, to); len(got) != 1 || got["set"] != "" {
		t.Errorf("the directory has %q", got)
	}
	if info, err := os.Stat(filepath.Join(to, "set")); err != nil || info.Mode() != 0o755 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

func FuzzUnpack(f *testing.F) {
	var data bytes.Buffer
	tw := tar.NewWriter(&data)
	for _, h := range []tar.Header{{Name: "top/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "top/a", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}} {
		_ = tw.WriteHeader(&h)
		_, _ = tw.Write(make([]byte, h.Size))
	}
	_ = tw.Close()
	f.Add(data.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		outside := t.TempDir()
		dir := filepath.Join(outside, "tree")
		check(t, os.Mkdir(dir, 0o755))
		_ = transfer.Unpack(t.Context(), bytes.NewReader(data), dir, transfer.Limits{Bytes: 1 << 20, Files: 100}, nil)
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
			t.Errorf("it wrote outside: %v, %v", entries, err)
		}
	})
}
