package workspace

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// Objects that unpack to more than they may are not unpacked to their end.
func TestLooseBomb(t *testing.T) {
	t.Parallel()
	bomb := func(size int64, header string) []byte {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		fmt.Fprint(w, header)
		block := make([]byte, 1<<20)
		for ; size > 0; size -= int64(len(block)) {
			w.Write(block)
		}
		w.Close()
		return b.Bytes()
	}
	source := openSource(t, Options{Dir: gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})})
	for name, content := range map[string][]byte{
		"larger than":   bomb(1<<20, "blob 1000000000000\x00"),
		"that it claim": bomb(8<<20, "blob 10\x00"),
		"begins with":   bomb(1<<20, ""),
	} {
		t.Run(name, func(t *testing.T) {
			tree := acquireFrom(t, source)
			gittest.Run(t, tree.Dir(), "sh", "-ec", "echo b > a.txt; git commit -qam one")
			object := ".git/objects/ab/" + strings.Repeat("c", 38)
			gittest.Write(t, tree.Dir(), map[string]string{object: string(content)})
			out := t.TempDir()
			diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(out, "diff.patch"),
				Objects: filepath.Join(out, "objects")})
			expect.NoError(t, err)
			if diff.History != nil {
				t.Errorf("history %+v, want none", diff.History)
			}
			if !slices.ContainsFunc(diff.Warnings, func(w Warning) bool {
				return w.Code == WarnHistory && strings.Contains(w.Message, name)
			}) {
				t.Errorf("warnings %+v, want one of %s that says %q", diff.Warnings, WarnHistory, name)
			}
		})
	}
}
