package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"

	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// Digest returns a digest of the names, kinds, sizes and times of the files beneath dir, which a container may write
// meanwhile, except those beneath the names in skip. It reads no file, follows no link and changes nothing.
// Of a directory that can't be entered only the name counts.
func Digest(ctx context.Context, dir string, skip ...string) (string, error) {
	root, err := folder.Open(dir)
	if err != nil {
		return "", git.WithCode("look at "+dir, err)
	}
	defer root.Close()
	var sums [4]atomic.Uint64 // of the entries; addition makes their order irrelevant
	err = folder.Walk(ctx, root, "", func(dir folder.Dir, path string, names []string) (descend []string, err error) {
		for _, name := range names {
			st, err := dir.Lstat(name)
			if err != nil || path == "" && slices.Contains(skip, name) {
				continue // it vanished meanwhile
			}
			isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
			if isDir { // its size and time are those of what is in it
				descend = append(descend, name)
				st.Size, st.Mtim = 0, unix.Timespec{}
			}
			h := sha256.Sum256(fmt.Appendf(nil, "%q %o %d %d", folder.Join(path, name), st.Mode, st.Size,
				st.Mtim.Nano()))
			for i := range sums {
				sums[i].Add(binary.LittleEndian.Uint64(h[8*i:]))
			}
		}
		return descend, nil
	}, func(string, error) error { return nil })
	if err != nil {
		return "", git.WithCode("look at "+dir, err)
	}
	var sum []byte
	for i := range sums {
		sum = binary.LittleEndian.AppendUint64(sum, sums[i].Load())
	}
	return hex.EncodeToString(sum[:16]), nil
}
