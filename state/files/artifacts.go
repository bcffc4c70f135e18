package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/state"
)

// limits bound what a walk reads.
type limits struct {
	files int   // listed
	bytes int64 // read in all
	file  int64 // bytes of one file
	names int   // bytes of all paths as JSON
}

const (
	maxDepth    = 64
	maxPath     = 4096
	maxWarnings = 100
)

// Artifacts lists the results in dir with sizes and digests, sorted by path,
// and says what is not listed and why. A container may have written them: no
// link is followed, nothing but regular files and directories is opened, and
// all is bounded. Files beyond a bound are left out with a warning, so that the
// rest of a run can always be recorded. The host's own files at the top of dir
// are left out, and the entries that skip names. The error is the context's, or
// dir can't be read.
func Artifacts(ctx context.Context, dir string, skip ...string) ([]state.Artifact, []string, error) {
	return walkResults(ctx, dir, limits{files: state.MaxArtifacts, bytes: 8 << 30, file: 2 << 30, names: 8 << 20}, skip)
}

func walkResults(ctx context.Context, dir string, most limits, skip []string) (artifacts []state.Artifact,
	warnings []string, err error) {
	d, err := folder.Open(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the results: %w", err)
	}
	defer d.Close()
	w := &walk{ctx: ctx, limits: most, skip: skip, artifacts: []state.Artifact{}, links: map[[2]uint64]int{}}
	if err := w.directory(d, "", 0); err != nil {
		return nil, nil, fmt.Errorf("list the results: %w", err)
	}
	slices.SortFunc(w.artifacts, func(a, b state.Artifact) int { return strings.Compare(a.Path, b.Path) })
	return w.artifacts, w.summary(), nil
}

// OpenResult opens a file that the record of a run names: the record itself, state.ManifestFile, or a result. No link
// is followed. A *state.Error is about the run, any other about the file: fs.ErrNotExist when the record does not name
// it.
func (r *Runs) OpenResult(ctx context.Context, id, name string) (*os.File, error) {
	e, err := r.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	if e.Manifest == nil || name != state.ManifestFile && !slices.ContainsFunc(e.Manifest.Artifacts,
		func(a state.Artifact) bool { return a.Path == name }) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	dir, err := folder.Open(e.OutputDir())
	if err != nil {
		return nil, fmt.Errorf("open the results: %w", err)
	}
	defer dir.Close()
	at := folder.NewCursor(dir, false)
	defer at.Close()
	in, base, err := at.Parent(name)
	if err != nil {
		return nil, err
	}
	f, _, err := in.OpenFile(base)
	return f, err
}

// walk is one call of Artifacts.
type walk struct {
	ctx       context.Context // of the call
	limits    limits
	skip      []string
	bytes     int64
	entries   int
	names     int // bytes of the paths as JSON
	artifacts []state.Artifact
	links     map[[2]uint64]int // files with several names, by device and inode: which artifact
	warnings  []string
	omitted   int // warnings beyond maxWarnings
}

func (w *walk) directory(d folder.Dir, prefix string, depth int) error {
	for _, name := range w.list(d, prefix) {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if depth == 0 && (isOwn(name) || slices.Contains(w.skip, name)) {
			continue
		}
		if len(w.artifacts) >= w.limits.files {
			w.warn("results beyond %d files are not listed", w.limits.files)
			return nil
		}
		rel := path.Join(prefix, name)
		if err := w.entry(d, name, rel, depth); err != nil {
			if w.ctx.Err() != nil {
				return err
			}
			w.warn("%.200q is not listed: %v", rel, err)
		}
	}
	return w.ctx.Err()
}

// list returns the sorted names in d. The number is bounded over the whole
// walk: directories count too.
func (w *walk) list(d folder.Dir, prefix string) (names []string) {
	bound := 4 * w.limits.files
	err := d.List(func(some []string) error {
		room := max(0, bound-w.entries)
		w.entries += len(some)
		if names = append(names, some[:min(len(some), room)]...); len(some) > room {
			return fmt.Errorf("it and what follows holds more than %d entries in all", bound)
		}
		return w.ctx.Err()
	})
	if err != nil && w.ctx.Err() == nil {
		w.warn("%q is not listed whole: %v", prefix, err)
	}
	slices.Sort(names)
	return names
}

// entry lists a file, or what is in a directory. An error says why it is not listed.
func (w *walk) entry(d folder.Dir, name, rel string, depth int) error {
	if !utf8.ValidString(name) || len(rel) > maxPath {
		return errors.New("its name is too long or not UTF-8")
	}
	st, err := d.Lstat(name)
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return w.file(d, name, rel)
	case unix.S_IFDIR:
		if depth == maxDepth {
			return fmt.Errorf("it lies more than %d directories deep", maxDepth)
		}
		sub, err := d.Sub(name)
		if err != nil {
			return err
		}
		defer sub.Close()
		return w.directory(sub, rel, depth+1)
	}
	return errors.New("it is a link or a special file")
}

func (w *walk) file(d folder.Dir, name, rel string) error {
	f, st, err := d.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if w.names += jsonSize(rel); w.names > w.limits.names {
		return fmt.Errorf("the names of the results need more than %d bytes", w.limits.names)
	}
	inode := [2]uint64{uint64(st.Dev), st.Ino}
	if at, ok := w.links[inode]; ok { // not read again, and not counted
		w.artifacts = append(w.artifacts, state.Artifact{Path: rel, Bytes: w.artifacts[at].Bytes,
			SHA256: w.artifacts[at].SHA256})
		return nil
	}
	if st.Size > w.limits.file || st.Size > w.limits.bytes-w.bytes {
		return fmt.Errorf("with %d bytes it is beyond the limit", st.Size)
	}
	hash := sha256.New()
	// A file that grows while it is read is recorded as it was found.
	n, err := io.Copy(hash, io.LimitReader(untilDone{w.ctx, f}, st.Size))
	w.bytes += n
	if err != nil {
		return err
	}
	if st.Nlink > 1 {
		w.links[inode] = len(w.artifacts)
	}
	w.artifacts = append(w.artifacts, state.Artifact{Path: rel, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil))})
	return nil
}

// untilDone reads until a context ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// jsonSize is how many bytes s has as a JSON string.
func jsonSize(s string) int {
	data, err := json.Marshal(s)
	if err != nil {
		return 0 // no string fails
	}
	return len(data)
}

func (w *walk) warn(format string, args ...any) {
	if len(w.warnings) >= maxWarnings {
		w.omitted++
		return
	}
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

func (w *walk) summary() []string {
	if w.omitted > 0 {
		return append(w.warnings, fmt.Sprintf("%d more results are not listed", w.omitted))
	}
	return w.warnings
}

// isOwn reports whether the host's own files are called so.
func isOwn(name string) bool {
	return name == state.ManifestFile || name == state.StartFile || name == state.LeaseFile ||
		name == state.SessionFile || name == state.UsageFile || strings.HasPrefix(name, durable.TempPrefix)
}
