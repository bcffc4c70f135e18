package git

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// A file of Git LFS that is what its pointer says is unchanged, and its pointer is in a snapshot. Any other is changed,
// and in a snapshot as it is.
func TestFilesOfLFS(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("big\n", 1000)
	pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n",
		sha256.Sum256([]byte(content)), len(content))
	for name, tt := range map[string]struct {
		file  string
		dirty bool
	}{
		"as the pointer says": {content, false},
		"of the same size":    {strings.Repeat("BIG\n", 1000), true},
		"longer":              {content + "x", true},
		"the pointer":         {pointer, false},
	} {
		repo := gittest.NewRepo(t, map[string]string{"big.bin": pointer, "a.txt": "a\n",
			".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
		gittest.Write(t, repo, map[string]string{"big.bin": tt.file})
		user, err := Locate(t.Context(), repo, Borrowing{})
		expect.NoError(t, err)
		scratch := t.TempDir()
		v, err := user.View(filepath.Join(scratch, "look"))
		expect.NoError(t, errors.Join(err, user.LoadStatus(t.Context(), v)))
		expect.Equal(t, name+": dirty", user.Status.Dirty, tt.dirty)
		into := Repository{Dir: filepath.Join(scratch, "into"), Format: SHA1, Alternates: []string{user.Objects}}
		expect.NoError(t, into.Create())
		tree, err := user.Snapshot(t.Context(), into, scratch)
		expect.NoError(t, err)
		want := pointer
		if tt.dirty {
			want = tt.file
		}
		got, err := into.Git().Run(t.Context(), nil, "cat-file", "-p", tree+":big.bin")
		expect.NoError(t, err)
		expect.Equal(t, name+": in the snapshot", string(got), want)
	}
}
