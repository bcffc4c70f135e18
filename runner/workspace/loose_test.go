package workspace

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
)

// For any bytes that an agent left as a loose object, the result is an object with the content that its name says.
func FuzzLooseObject(f *testing.F) {
	pack := func(text string) []byte {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		fmt.Fprint(w, text)
		w.Close()
		return b.Bytes()
	}
	for _, text := range []string{"blob 2\x00a\n", "blob 0\x00", "tree 0\x00", "blob 02\x00a\n", "blob -1\x00",
		"blob 9999999999999\x00a", "blob 1\x00ab", "junk 1\x00a", "blob 1", "commit 1\x00a"} {
		f.Add(pack(text))
	}
	f.Add([]byte("x"))
	f.Add(pack("blob 2\x00a\n")[:5])
	f.Fuzz(func(t *testing.T, data []byte) {
		hash := git.SHA1.NewHash()
		if inflate, err := zlib.NewReader(bytes.NewReader(data)); err == nil {
			bufio.NewReader(inflate).WriteTo(hash) // what can be read of it
		}
		id := hex.EncodeToString(hash.Sum(nil))
		to := filepath.Join(t.TempDir(), id)
		in := &objectImport{format: git.SHA1}
		if err := in.looseObject(bytes.NewReader(data), to, id); err != nil {
			return
		}
		taken, err := os.Open(to)
		expect.NoError(t, err)
		defer taken.Close()
		inflate, err := zlib.NewReader(taken)
		expect.NoError(t, err)
		content := bufio.NewReader(inflate)
		size, header, err := looseHeader(content)
		expect.NoError(t, err)
		again := git.SHA1.NewHash()
		fmt.Fprint(again, header)
		if n, err := content.WriteTo(again); err != nil || n != size || hex.EncodeToString(again.Sum(nil)) != id {
			t.Fatalf("%d bytes for %q, %v", n, header, err)
		}
	})
}
