package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
)

// A record that is cut or damaged anywhere is not used.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "index")
	r := &record{format: git.SHA1, header: recordHeader{Complete: true}}
	if _, err := r.write(name); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil || !readRecord(name, git.SHA1).header.Complete {
		t.Fatalf("the record is not read: %v", err)
	}
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x41
		for _, content := range [][]byte{damaged, data[:i]} {
			expect.NoError(t, os.WriteFile(name, content, 0o600))
			if readRecord(name, git.SHA1).header.Complete {
				t.Fatalf("damage at byte %d of %d went unnoticed", i, len(data))
			}
		}
	}
}
