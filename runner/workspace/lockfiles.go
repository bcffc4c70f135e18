package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
)

// LockFiles takes the user's files in directories, of this process and others with the same cache: to write to them,
// for the caller alone, or else to copy them, so that no copy has a part of a change. All directories of a working tree
// are one. The error is that of ctx, or of the lock's file.
func LockFiles(ctx context.Context, cacheDir string, write bool, dirs ...string) (unlock func(), err error) {
	var held []*flock.Flock
	unlock = func() {
		for _, lock := range held {
			_ = lock.Unlock() // the end of the process does the same
		}
	}
	var names []string
	for _, dir := range dirs {
		sum := sha256.Sum256([]byte(workingTree(dir)))
		names = append(names, hex.EncodeToString(sum[:16]))
	}
	slices.Sort(names) // as all take them
	at := filepath.Join(cacheDir, "files")
	if err = os.MkdirAll(at, 0o700); err != nil {
		return nil, fmt.Errorf("lock the files of a workspace: %w", err)
	}
	for _, name := range slices.Compact(names) {
		lock := flock.New(filepath.Join(at, name+".lock"), flock.SetPermissions(0o600))
		take := lock.TryRLockContext
		if write {
			take = lock.TryLockContext
		}
		if _, err := take(ctx, 20*time.Millisecond); err != nil {
			unlock()
			return nil, fmt.Errorf("lock the files of a workspace: %w", err)
		}
		held = append(held, lock)
	}
	return unlock, nil
}

// workingTree is the nearest directory at or above dir, links resolved, that is the top of a working tree, else dir.
func workingTree(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return top
		}
		if top == filepath.Dir(top) {
			return dir
		}
	}
}
