package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FetchOptions bound what is taken from a remote.
type FetchOptions struct {
	Dir   string // an empty directory that gets the files; Dir+".git" is used meanwhile
	Files int    // at most, in the directory that is wanted
	Bytes int64  // at most, of those files
	Pack  int64  // bytes that may be fetched in all
}

// Fetched says what came.
type Fetched struct {
	Commit string // full id
	Path   string // directory within the repository
	Files  []string
}

// Fetch writes one directory of a repository, as of one commit, into an empty
// directory, without history. Nothing of the repository is run: no hooks, no
// filters, no submodules, no configuration but ours. Paths that leave the
// directory, special entries and what exceeds the bounds are refused before a
// file is written.
func (r Remote) Fetch(ctx context.Context, o FetchOptions) (_ *Fetched, err error) {
	repo := repository{dir: o.Dir + ".git"}
	defer func() { err = errors.Join(err, os.RemoveAll(repo.dir)) }()
	fetched, err := r.fetch(ctx, repo, o)
	if err != nil {
		return nil, typed("fetch "+r.URL, fetchError(err))
	}
	return fetched, nil
}

func (r Remote) fetch(ctx context.Context, repo repository, o FetchOptions) (*Fetched, error) {
	if err := os.Mkdir(repo.dir, 0o700); err != nil {
		return nil, err
	}
	remote := newGit(repo.dir, append(inherited(keepForRemote), "GIT_SSH_COMMAND=ssh -oBatchMode=yes")...).
		withConfig("protocol."+r.scheme()+".allow=always", "fetch.fsckObjects=true", "transfer.fsckObjects=true",
			"fetch.writeCommitGraph=false")
	refs, err := remote.run(ctx, nil, "ls-remote", "--", r.URL)
	if err != nil {
		return nil, err
	}
	ref, path, err := r.choose(refs)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(repo.dir); err != nil {
		return nil, err
	}
	repo.format = formatOf(refs)
	if err := repo.create(); err != nil {
		return nil, err
	}
	if err := bounded(ctx, repo.dir, o.Pack, func(ctx context.Context) error {
		_, err := remote.run(ctx, nil, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules",
			"--no-auto-maintenance", "--", r.URL, "+"+ref+":refs/heads/holon")
		return err
	}); err != nil {
		return nil, err
	}
	commit, err := repo.git().line(ctx, "rev-parse", "--verify", "refs/heads/holon^{commit}")
	if err != nil {
		return nil, err
	}
	files, err := repo.extract(ctx, commit, path, o)
	return &Fetched{Commit: commit, Path: path, Files: files}, err
}

// keepForRemote passes on how the network is reached and who the user is to ssh.
func keepForRemote(name string) bool {
	return slices.Contains([]string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE",
		"SSL_CERT_DIR", "SSH_AUTH_SOCK"}, strings.ToUpper(name))
}

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// choose finds what to fetch among the refs that the remote has, and the
// directory that is wanted.
func (r Remote) choose(refs []byte) (ref, path string, err error) {
	known := make(map[string]bool)
	for line := range bytes.Lines(refs) {
		if _, name, ok := strings.Cut(strings.TrimSpace(string(line)), "\t"); ok {
			known[name] = true
		}
	}
	find := func(name string) string {
		for _, full := range []string{"refs/heads/" + name, "refs/tags/" + name, name} {
			if known[full] {
				return full
			}
		}
		if commitID.MatchString(name) {
			return name
		}
		return ""
	}
	for n := len(r.tree); n > 0; n-- { // the longest ref that exists
		if full := find(strings.Join(r.tree[:n], "/")); full != "" {
			return full, strings.Join(r.tree[n:], "/"), nil
		}
	}
	name := r.Ref
	switch {
	case len(r.tree) > 0:
		name = r.tree[0]
	case name == "" && known["HEAD"]:
		return "HEAD", r.Path, nil
	case name == "":
		name = "HEAD"
	}
	if full := find(name); full != "" {
		return full, r.Path, nil
	}
	return "", "", &Error{Code: CodeInvalidOption, Param: "--ref",
		Message: fmt.Sprintf("the repository has no branch or tag %.100q", name),
		Hint:    "give one that it has, or a full commit id"}
}

// formatOf tells the hash function of a repository by the length of its ids.
func formatOf(refs []byte) objectFormat {
	if id, _, _ := bytes.Cut(refs, []byte("\t")); len(id) == 2*formatSHA256.size() {
		return formatSHA256
	}
	return formatSHA1
}

// bounded runs do and ends it when dir grows beyond most bytes: a remote may
// send without end.
func bounded(ctx context.Context, dir string, most int64, do func(context.Context) error) error {
	tooLarge := &Error{Code: CodeTooLarge, Param: "SOURCE",
		Message: fmt.Sprintf("the repository has more than %d bytes at this commit", most),
		Hint:    "copy the folder that is needed, and give that"}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if sizeOf(dir) > most {
					cancel(tooLarge)
				}
			}
		}
	}()
	err := do(ctx)
	close(done)
	<-watched
	if err == nil && sizeOf(dir) > most {
		return tooLarge
	}
	if cause, ok := errors.AsType[*Error](context.Cause(ctx)); ok && err != nil {
		return cause
	}
	return err
}

func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil { // git renames its files meanwhile
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// extract writes the files of a directory of a commit.
func (r repository) extract(ctx context.Context, commit, path string, o FetchOptions) ([]string, error) {
	object := commit
	if path != "" {
		object = commit + ":" + path
	}
	kind, err := r.git().line(ctx, "cat-file", "-t", object)
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil || path != "" && kind != "tree" {
		return nil, &Error{Code: CodeInvalidOption, Param: "--path",
			Message: fmt.Sprintf("the repository has no directory %.100q at this commit", path),
			Hint:    "look which it has"}
	}
	listing, err := r.git().run(ctx, nil, "ls-tree", "-r", "-z", "-l", "--full-tree", object)
	if err != nil {
		return nil, err
	}
	entries, err := boundedTree(r.format, listing, o)
	if err != nil {
		return nil, err
	}
	root, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	defer root.close()
	return pathsOf(entries), r.write(ctx, root, entries)
}

// boundedTree reads `git ls-tree -r -z -l` and refuses what may not be written.
func boundedTree(format objectFormat, listing []byte, o FetchOptions) ([]entry, error) {
	var plain bytes.Buffer // the same without sizes
	var total int64
	if len(listing) == 0 {
		return nil, nil
	}
	for record := range bytes.SplitSeq(bytes.TrimSuffix(listing, []byte{0}), []byte{0}) {
		about, path, _ := bytes.Cut(record, []byte("\t"))
		fields := strings.Fields(string(about))
		if len(fields) != 4 {
			return nil, fmt.Errorf("malformed line %.100q", record)
		}
		if size, err := strconv.ParseInt(fields[3], 10, 64); err == nil {
			total += size
		} else if fields[1] != "commit" {
			return nil, fmt.Errorf("malformed line %.100q", record)
		}
		fmt.Fprintf(&plain, "%s\t%s\x00", strings.Join(fields[:3], " "), path)
	}
	entries, err := parseTree(format, plain.Bytes(), "")
	if err != nil {
		return nil, err
	}
	if len(entries) > o.Files || total > o.Bytes {
		return nil, &Error{Code: CodeTooLarge, Param: "--path",
			Message: fmt.Sprintf("the directory has %d files of %d bytes; %d of %d may be", len(entries), total,
				o.Files, o.Bytes), Hint: "name the directory that is needed with --path"}
	}
	for _, e := range entries {
		if e.mode == modeSubmodule {
			return nil, &Error{Code: CodeUnsafePath, Param: "--path",
				Message: fmt.Sprintf("%.200q is another repository, which is not fetched", e.path),
				Hint:    "name a directory without submodules"}
		}
	}
	return entries, nil
}

func pathsOf(entries []entry) []string {
	paths := make([]string, len(entries))
	for i, e := range entries {
		paths[i] = e.path
	}
	return paths
}

// write writes entries into the folder root with the contents from one git
// process.
func (r repository) write(ctx context.Context, root folder, entries []entry) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ids bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&ids, "%x\n", e.oid)
	}
	blobs, err := r.git().start(ctx, "cat-file", "--batch", "--buffer")
	if err != nil {
		return err
	}
	asked := make(chan error, 1)
	go func() {
		_, _ = blobs.in.Write(ids.Bytes()) // an error sticks to the writer
		asked <- blobs.finishInput()
	}()
	defer func() {
		if err != nil {
			cancel()
		}
		<-asked
		if closeErr := blobs.close(); err == nil {
			err = closeErr
		}
	}()
	w := &fileWriter{dirs: newCursor(root, true), blobs: blobs.out, since: time.Now().UnixNano()}
	defer w.dirs.close()
	for i := range entries {
		if err := w.write(&entries[i]); err != nil {
			return fmt.Errorf("write %q: %w", entries[i].path, err)
		}
	}
	return nil
}

// fetchError says in our terms why git could not fetch.
func fetchError(err error) error {
	if _, said := errors.AsType[*Error](err); said {
		return err
	}
	failed, ok := errors.AsType[*gitError](err)
	if !ok || failed.cause != nil {
		return err
	}
	return &Error{Code: CodeGitFailed, Param: "SOURCE", Message: "the repository can't be fetched",
		Hint: "look at the URL, and whether it can be read without a password", Err: err}
}
