// Package fetch takes one directory of a git repository that somebody else may control.
//
// Invariant: nothing of the repository is run, and no file is written before the whole listing is known to stay within
// the bounds and below the directory.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// Options bound a fetch.
type Options struct {
	Dir   string // an empty directory that gets the files; Dir+".git" is used meanwhile
	Files int    // at most, in the directory that is wanted
	Bytes int64  // at most, of those files
	Pack  int64  // bytes that may be fetched in all
}

// Result says what was fetched.
type Result struct {
	Commit string // full id
	Path   string // directory within the repository
	Files  []string
}

// Fetch writes one directory of a repository, as of one commit, into an empty directory, without history. Nothing of
// the repository is run: no hooks, no filters, no submodules, no configuration but ours. Paths that leave the
// directory, special entries and what exceeds the bounds are refused before a file is written.
func (r Source) Fetch(ctx context.Context, o Options) (_ *Result, err error) {
	repo := git.Repository{Dir: o.Dir + ".git"}
	defer func() { err = errors.Join(err, os.RemoveAll(repo.Dir)) }()
	fetched, err := r.fetch(ctx, repo, o)
	if err != nil {
		return nil, git.WithCode("fetch "+r.URL, fetchError(err))
	}
	return fetched, nil
}

func (r Source) fetch(ctx context.Context, repo git.Repository, o Options) (*Result, error) {
	if err := os.Mkdir(repo.Dir, 0o700); err != nil {
		return nil, err
	}
	remote := git.NewRunner(repo.Dir, append(git.InheritedEnv(keepForRemote),
		"GIT_SSH_COMMAND=ssh -oBatchMode=yes")...).
		WithConfig("protocol."+r.scheme()+".allow=always", "fetch.fsckObjects=true", "transfer.fsckObjects=true",
			"fetch.writeCommitGraph=false")
	refs, err := remote.Run(ctx, nil, "ls-remote", "--", r.URL)
	if err != nil {
		return nil, err
	}
	ref, path, err := r.choose(refs)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(repo.Dir); err != nil {
		return nil, err
	}
	repo.Format = formatOf(refs)
	if err := repo.Create(); err != nil {
		return nil, err
	}
	if err := bounded(ctx, repo.Dir, o.Pack, func(ctx context.Context) error {
		_, err := remote.Run(ctx, nil, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules",
			"--no-auto-maintenance", "--", r.URL, "+"+ref+":refs/heads/holon")
		return err
	}); err != nil {
		return nil, err
	}
	commit, err := repo.Git().Line(ctx, "rev-parse", "--verify", "refs/heads/holon^{commit}")
	if err != nil {
		return nil, err
	}
	files, err := extract(ctx, repo, commit, path, o)
	return &Result{Commit: commit, Path: path, Files: files}, err
}

// keepForRemote accepts the variables for reaching the network, and the agent of ssh.
func keepForRemote(name string) bool {
	return slices.Contains([]string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE",
		"SSL_CERT_DIR", "SSH_AUTH_SOCK"}, strings.ToUpper(name))
}

// choose returns the ref to fetch, out of those that the remote has, and the directory in it.
func (r Source) choose(refs []byte) (ref, path string, err error) {
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
		if git.ObjectID().MatchString(name) {
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
	return "", "", &git.Error{Code: git.CodeInvalidOption, Param: "--ref",
		Message: fmt.Sprintf("the repository has no branch or tag %.100q", name),
		Hint:    "give one that it has, or a full commit id"}
}

// formatOf tells the hash function of a repository by the length of its ids.
func formatOf(refs []byte) git.ObjectFormat {
	if id, _, _ := bytes.Cut(refs, []byte("\t")); len(id) == 2*git.SHA256.Size() {
		return git.SHA256
	}
	return git.SHA1
}

// bounded runs do and cancels it when dir grows beyond most bytes, because a remote may send without end.
func bounded(ctx context.Context, dir string, most int64, do func(context.Context) error) error {
	tooLarge := &git.Error{Code: git.CodeTooLarge, Param: "SOURCE",
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
	if cause, ok := errors.AsType[*git.Error](context.Cause(ctx)); ok && err != nil {
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
func extract(ctx context.Context, r git.Repository, commit, path string, o Options) ([]string, error) {
	object := commit
	if path != "" {
		object = commit + ":" + path
	}
	kind, err := r.Git().Line(ctx, "cat-file", "-t", object)
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil || path != "" && kind != "tree" {
		return nil, &git.Error{Code: git.CodeInvalidOption, Param: "--path",
			Message: fmt.Sprintf("the repository has no directory %.100q at this commit", path),
			Hint:    "check the path"}
	}
	listing, err := r.Git().Run(ctx, nil, "ls-tree", "-r", "-z", "-l", "--full-tree", object)
	if err != nil {
		return nil, err
	}
	entries, err := boundedTree(r.Format, listing, o)
	if err != nil {
		return nil, err
	}
	root, err := folder.Open(o.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files := make([]*git.Entry, len(entries))
	paths := make([]string, len(entries))
	for i := range entries {
		files[i], paths[i] = &entries[i], entries[i].Path
	}
	return paths, r.Git().WriteFiles(ctx, root, nil, time.Now().UnixNano(), files)
}

// boundedTree reads `git ls-tree -r -z -l` and refuses what may not be written.
func boundedTree(format git.ObjectFormat, listing []byte, o Options) ([]git.Entry, error) {
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
	entries, err := git.ParseTree(format, plain.Bytes(), "")
	if err != nil {
		return nil, err
	}
	if len(entries) > o.Files || total > o.Bytes {
		return nil, &git.Error{Code: git.CodeTooLarge, Param: "--path",
			Message: fmt.Sprintf("the directory has %d files of %d bytes; %d of %d may be", len(entries), total,
				o.Files, o.Bytes), Hint: "name the directory that is needed with --path"}
	}
	for _, e := range entries {
		if e.Mode == git.ModeSubmodule {
			return nil, &git.Error{Code: git.CodeUnsafePath, Param: "--path",
				Message: fmt.Sprintf("%.200q is another repository, which is not fetched", e.Path),
				Hint:    "name a directory without submodules"}
		}
	}
	return entries, nil
}

// fetchError returns an error that names the source for a failure of git.
func fetchError(err error) error {
	if _, ours := errors.AsType[*git.Error](err); ours {
		return err
	}
	failed, ok := errors.AsType[*git.ExitError](err)
	if !ok || failed.Cause != nil {
		return err
	}
	return &git.Error{Code: git.CodeGitFailed, Param: "SOURCE", Message: "the repository can't be fetched",
		Hint: "look at the URL, and whether it can be read without a password", Err: err}
}
