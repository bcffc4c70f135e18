package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"syscall"

	"holon/internal/roots"
	"holon/responses/turns"
)

// Bounds of the artifacts that a record lists. Files beyond them stay on disk and are not listed.
const (
	maxArtifacts     = 10_000
	maxArtifactBytes = 256 << 20
)

// artifacts lists the regular files of a turn directory other than its own
// files, with digests, sorted by path. Links and special files are left out: a
// command that the turn ran may have put anything there.
func (s *Store) artifacts(dir string) ([]turns.Artifact, error) {
	root, err := roots.Open(dir) // a command may have put anything in its place
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	defer root.Close()
	list := []turns.Artifact{}
	var total int64
	walk := func(path string, d fs.DirEntry, err error) error {
		if err != nil { // an unreadable folder is the tool's own doing
			return nil
		}
		if d.IsDir() && filepath.Join(dir, path) == s.dir {
			return fs.SkipDir // `agentd run` keeps its state in the turn's directory
		}
		if !d.Type().IsRegular() || slices.Contains(ownFiles, path) {
			return nil
		}
		info, err := d.Info()
		if err != nil || total+info.Size() > maxArtifactBytes {
			return nil
		}
		if len(list) == maxArtifacts {
			return fs.SkipAll
		}
		a, err := digest(root, path)
		if err != nil {
			return nil
		}
		total += a.Bytes
		list = append(list, a)
		return nil
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if path == turns.ArtifactsDir && d.IsDir() {
			s.users.Do(func() { err = fs.WalkDir(root.FS(), path, walk) })
			return cmp.Or(err, fs.SkipDir)
		}
		return walk(path, d, err)
	})
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return list, nil
}

// ownFiles are the files of a turn's directory that agentd writes.
var ownFiles = []string{turns.RecordFile, turns.JournalFile, turns.EventsFile, turns.RuntimeFile, turns.FailureFile}

func digest(root *os.Root, path string) (turns.Artifact, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return turns.Artifact{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxArtifactBytes))
	if err != nil {
		return turns.Artifact{}, err
	}
	return turns.Artifact{Path: path, Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
