package workspace

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
)

// The list ends where it ends, whatever its paths look like and however git's output comes in pieces.
func TestListAndPatchAreToldApart(t *testing.T) {
	t.Parallel()
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	printed := strings.Join([]string{
		":100644 100755 " + one + " " + one + " M", "b",
		":100644 100644 " + one + " " + two + " R090", ":a M", "c\t",
		":000000 100644 " + strings.Repeat("0", 40) + " " + two + " A", "1\t0\t\t",
		"0\t0\tb", "3\t4\t", ":a M", "c\t", "-\t-\t1\t0\t\t", "", "diff --git a/b b/b\n\x00\n",
	}, "\x00")
	for name, from := range map[string]io.Reader{
		"at once":   strings.NewReader(printed),
		"in bytes":  iotest.OneByteReader(strings.NewReader(printed)),
		"in halves": iotest.HalfReader(strings.NewReader(printed)),
	} {
		var patch bytes.Buffer
		l := &listAndPatch{patch: &patch}
		_, err := io.Copy(struct{ io.Writer }{l}, struct{ io.Reader }{from})
		expect.NoError(t, err)
		expect.Equal(t, name+": the patch", patch.String(), "diff --git a/b b/b\n\x00\n")
		files, ids, err := parseChanges(l.list)
		expect.NoError(t, err)
		want := []FileChange{
			{Path: "b", Status: "modified", OldMode: "100644", Mode: "100755"},
			{Path: "c\t", From: ":a M", Status: "renamed", OldMode: "100644", Mode: "100644", Added: 3, Deleted: 4},
			{Path: "1\t0\t\t", Status: "added", Mode: "100644", Binary: true},
		}
		if diff := cmp.Diff(want, files); diff != "" || len(ids) != len(want) {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, ids)
		}
	}
}
