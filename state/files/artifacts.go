package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/state"
)

// Limits bound what Artifacts reads. A zero field is the default.
type Limits struct {
	Files     int   // files listed; default state.MaxArtifacts
	Bytes     int64 // bytes read in all; default 8 GiB
	FileBytes int64 // bytes of one file; default 2 GiB
	NameBytes int   // bytes of all paths as JSON; default 8 MiB

	// Skip names entries at the top that are no results.
	Skip []string
}

const (
	maxDepth       = 64
	maxPath        = 4096
	maxWarnings    = 100
	entriesAtATime = 1024
)

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = state.MaxArtifacts
	}
	if l.Bytes <= 0 {
		l.Bytes = 8 << 30
	}
	if l.FileBytes <= 0 {
		l.FileBytes = 2 << 30
	}
	if l.NameBytes <= 0 {
		l.NameBytes = 8 << 20
	}
	return l
}

// Artifacts lists the results in dir with sizes and digests, sorted by path,
// and says what is not listed and why. A container may have written them: no
// link is followed, nothing but regular files and directories is opened, and
// all is bounded. Files beyond a bound are left out with a warning, so that the
// rest of a run can always be recorded. The host's own files at the top of dir
// are left out. The error is the context's, or dir can't be read.
func Artifacts(ctx context.Context, dir string, limits Limits) (artifacts []state.Artifact, warnings []string,
	err error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open the results: %w", err)
	}
	defer d.Close()
	w := &walk{limits: limits.withDefaults(), buffer: make([]byte, 256<<10), artifacts: []state.Artifact{},
		links: map[[2]uint64]int{}}
	if err := w.directory(ctx, d, "", 0); err != nil {
		return nil, nil, fmt.Errorf("list the results: %w", err)
	}
	slices.SortFunc(w.artifacts, func(a, b state.Artifact) int { return strings.Compare(a.Path, b.Path) })
	return w.artifacts, w.summary(), nil
}

// walk is one call of Artifacts.
type walk struct {
	limits    Limits
	buffer    []byte
	bytes     int64
	entries   int
	names     int // bytes of the paths as JSON
	artifacts []state.Artifact
	links     map[[2]uint64]int // files with several names, by device and inode: which artifact
	warnings  []string
	unsaid    int // warnings beyond maxWarnings
}

func (w *walk) directory(ctx context.Context, d *os.File, prefix string, depth int) error {
	names, err := w.list(ctx, d, prefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if depth == 0 && (isOwn(name) || slices.Contains(w.limits.Skip, name)) {
			continue
		}
		if len(w.artifacts) >= w.limits.Files {
			w.warn("results beyond %d files are not listed", w.limits.Files)
			return nil
		}
		if err := w.entry(ctx, d, name, path.Join(prefix, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// list returns the sorted names in d. The number is bounded over the whole
// walk: directories count too.
func (w *walk) list(ctx context.Context, d *os.File, prefix string) ([]string, error) {
	bound := 4 * w.limits.Files
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, err := d.Readdirnames(entriesAtATime)
		if w.entries += len(batch); w.entries > bound {
			names = append(names, batch[:max(0, bound-(w.entries-len(batch)))]...)
			w.warn("%q and what follows holds more than %d entries in all; the rest is not listed", prefix, bound)
			break
		}
		names = append(names, batch...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.warn("%q can't be read: %v", prefix, err)
			break
		}
	}
	slices.Sort(names)
	return names, nil
}

func (w *walk) entry(ctx context.Context, d *os.File, name, rel string, depth int) error {
	if !utf8.ValidString(name) || len(rel) > maxPath {
		w.warn("%.200q is not listed: its name is too long or not UTF-8", rel)
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.warn("%q is not listed: %v", rel, err)
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.subdirectory(ctx, d, name, rel, depth+1)
	case unix.S_IFREG:
		return w.file(ctx, d, name, rel)
	}
	w.warn("%q is not listed: it is a link or a special file", rel)
	return nil
}

func (w *walk) subdirectory(ctx context.Context, d *os.File, name, rel string, depth int) error {
	if depth > maxDepth {
		w.warn("%q is not listed: it lies more than %d directories deep", rel, maxDepth)
		return nil
	}
	sub, err := openAt(d, name, unix.O_DIRECTORY)
	if err != nil {
		w.warn("%q is not listed: %v", rel, err)
		return nil
	}
	defer sub.Close()
	return w.directory(ctx, sub, rel, depth)
}

func (w *walk) file(ctx context.Context, d *os.File, name, rel string) error {
	f, info, err := openRegular(d, name)
	if err != nil {
		w.warn("%q is not listed: %v", rel, err)
		return nil
	}
	defer f.Close()
	if w.names += jsonSize(rel); w.names > w.limits.NameBytes {
		w.warn("%.200q is not listed: the names of the results need more than %d bytes", rel, w.limits.NameBytes)
		return nil
	}
	size, first := info.Size(), len(w.artifacts)
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		if known, ok := w.links[[2]uint64{uint64(st.Dev), st.Ino}]; ok { // not read again, and not counted
			w.artifacts = append(w.artifacts, state.Artifact{Path: rel, Bytes: w.artifacts[known].Bytes,
				SHA256: w.artifacts[known].SHA256})
			return nil
		}
		defer func() {
			if len(w.artifacts) > first {
				w.links[[2]uint64{uint64(st.Dev), st.Ino}] = first
			}
		}()
	}
	if size > w.limits.FileBytes || size > w.limits.Bytes-w.bytes {
		w.warn("%q is not listed: with %d bytes it is beyond the limit", rel, size)
		return nil
	}
	hash := sha256.New()
	// A file that grows while it is read is recorded as it was found.
	content := io.LimitReader(f, size)
	n, err := io.CopyBuffer(hash, readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return content.Read(p)
	}), w.buffer)
	w.bytes += n
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		w.warn("%q is not listed: %v", rel, err)
		return nil
	}
	w.artifacts = append(w.artifacts, state.Artifact{Path: rel, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil))})
	return nil
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
		w.unsaid++
		return
	}
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

func (w *walk) summary() []string {
	if w.unsaid > 0 {
		return append(w.warnings, fmt.Sprintf("%d more results are not listed", w.unsaid))
	}
	return w.warnings
}

// isOwn reports whether the host's own files are called so.
func isOwn(name string) bool {
	return name == state.ManifestFile || name == state.StartFile || name == state.LeaseFile ||
		name == state.SessionFile || name == state.UsageFile || strings.HasPrefix(name, durable.TempPrefix)
}

// readerFunc hides other methods of a reader, so that the walk's buffer is used.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
