package patch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
)

// files maps a path to content; "->x" is a symbolic link to x, and a key that
// ends in ! is executable; one that ends in / is an empty directory.
type files map[string]string

func (f files) make(t testing.TB, top string) {
	t.Helper()
	for name, data := range f {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			expect.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
			continue
		}
		path, mode := filepath.Join(top, strings.TrimSuffix(name, "!")), fs.FileMode(0o644)
		if strings.HasSuffix(name, "!") {
			mode = 0o755
		}
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var err error
		if target, ok := strings.CutPrefix(data, "->"); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(data), mode)
		}
		expect.NoError(t, err)
	}
}

// read returns everything below dir, empty directories as "dir/".
func read(t testing.TB, dir string) files {
	t.Helper()
	got := files{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			if list, err := os.ReadDir(path); err == nil && len(list) == 0 && path != dir {
				got[name+"/"] = ""
			}
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			got[name] = "->" + target
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if fi, _ := d.Info(); fi.Mode()&0o100 != 0 {
				name += "!"
			}
			got[name] = string(data)
		default:
			got[name] = "special"
		}
		return nil
	})
	expect.NoError(t, err)
	return got
}

const abc = "a\nb\nc\nd\ne\nf\n"
