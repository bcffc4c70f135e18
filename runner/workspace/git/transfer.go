package git

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// maxAlloc bounds the memory that git may ask for at once, for one object.
const maxAlloc = "1200m"

// Transfer copies commit and everything it needs beyond the bases from one repository of ours to another, through
// one pack of at most limit bytes. The receiver checks every object strictly, and that all objects named by
// an object exist.
func Transfer(ctx context.Context, from, to Repository, commit string, bases []string, limit int64) (pack string,
	err error) {
	want := Beyond(commit, bases)
	read, write := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		g := from.Git().With("GIT_ALLOC_LIMIT=" + maxAlloc).WithCPUTime(PackTime)
		err := g.Stream(ctx, strings.NewReader(want), write, "pack-objects", "--revs", "--stdout", "--quiet",
			"--delta-base-offset", "--window=0")
		write.CloseWithError(err)
		return err
	})
	var out []byte
	group.Go(func() (err error) {
		g := to.Git().With("GIT_ALLOC_LIMIT=" + maxAlloc).WithConfig("core.fsync=none").WithCPUTime(PackTime)
		out, err = g.Run(ctx, read, "index-pack", "--stdin", "--strict",
			"--max-input-size="+strconv.FormatInt(limit, 10))
		read.CloseWithError(err)
		return err
	})
	if err := group.Wait(); err != nil {
		return "", RefusedObjects(err)
	}
	kind, id, ok := strings.Cut(strings.TrimSpace(string(out)), "\t") // "pack TAB id"
	if !ok || kind != "pack" || !ObjectID().MatchString(id) {
		return "", fmt.Errorf("check objects: git answered %.100q", out)
	}
	pack = filepath.Join(to.Objects(), "pack", "pack-"+id+".pack")
	_, err = os.Stat(pack)
	return pack, err
}

// Beyond is the input of a git command that takes revisions: what of a commit, or a reference, the bases lack. Empty
// bases are left out.
func Beyond(tip string, bases []string) string {
	var b strings.Builder
	b.WriteString(tip + "\n")
	for _, base := range bases {
		if base != "" {
			b.WriteString("^" + base + "\n")
		}
	}
	return b.String()
}

// RefusedObjects returns an error with CodeUnsafeObjects if git refused the objects, otherwise err.
func RefusedObjects(err error) error {
	failed, ok := AsExitError(err)
	if !ok || failed.Cause != nil || IsDiskFull(err) ||
		failed.command != "index-pack" && failed.command != "pack-objects" {
		return err
	}
	return &Error{Code: CodeUnsafeObjects, Param: "RUN", Message: "the objects of the run don't pass git's checks",
		Err:  err,
		Hint: "the repository was not touched; holon apply takes the change as a patch"}
}
