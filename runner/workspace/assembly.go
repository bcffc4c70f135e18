package workspace

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

// Bounds on what is taken into the user's repository.
const (
	maxPack  = 4 << 30  // bytes of a pack
	maxAlloc = "1200m"  // memory that git may ask for at once, for one object
	whoName  = "holon"  // author where the user's configuration names nobody
	whoEmail = "holon@" // likewise; a placeholder that is no address
)

// assembly makes commits of a run's trees and lets them into the user's
// repository through a quarantine.
//
//	run's objects ─▶ commits ─▶ quarantine: index-pack --strict ─▶ user's repository
type assembly struct {
	user    *userRepository
	options CheckoutOptions
	scratch string

	source repository // reads the user's and the run's objects, gets the commits
}

// build makes the commits and returns the last one and their number.
//
//	base ◀─ start (uncommitted changes, if the run began with some) ◀─ result
//	base ◀─ the agent's own commits ◀─ result (what it did not commit, if any)
func (a *assembly) build(ctx context.Context) (commit string, commits int, err error) {
	o := a.options
	a.source = repository{dir: filepath.Join(a.scratch, "source"), format: a.user.format,
		alternates: []string{a.user.objects, o.Objects}}
	if string(a.user.format) != o.Info.ObjectFormat {
		return "", 0, &Error{Code: CodeMissingObjects, Param: "--workspace",
			Message: "the repository uses " + string(a.user.format) + ", the run used " + o.Info.ObjectFormat,
			Hint:    "name a clone of the repository that the run was made from"}
	}
	if err := a.create(a.source); err != nil {
		return "", 0, err
	}
	if err := a.checkObjects(ctx); err != nil {
		return "", 0, err
	}
	commit = o.Info.BaseCommit
	if tip := o.Diff.History; o.History && tip != nil {
		commit, commits = tip.Commit, tip.Commits
		tree, err := a.source.git().line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
		if err != nil {
			return "", 0, err
		}
		if tree == o.Diff.ResultTree {
			return commit, commits, nil
		}
	} else if o.Info.IncludedDirty {
		subject := "Uncommitted changes at the start of run " + o.Run
		if commit, err = a.commit(ctx, o.Diff.BaseTree, commit, subject, "Holon-Start: "+o.Run); err != nil {
			return "", 0, err
		}
		commits++
	}
	commit, err = a.commit(ctx, o.Diff.ResultTree, commit, o.Title, "Holon-Run: "+o.Run)
	return commit, commits + 1, err
}

// create makes a repository of ours that knows where a shallow history ends.
func (a *assembly) create(repo repository) error {
	if err := repo.create(); err != nil {
		return err
	}
	return a.user.writeShallow(repo)
}

// checkObjects looks for what the commits stand on. A run's base may be gone
// from the user's repository, and its objects from the run's directory.
func (a *assembly) checkObjects(ctx context.Context) error {
	o := a.options
	needs := []struct{ id, kind string }{{o.Info.BaseCommit, "commit"}, {o.Diff.BaseTree, "tree"},
		{o.Diff.ResultTree, "tree"}}
	if o.History && o.Diff.History != nil {
		needs = append(needs, struct{ id, kind string }{o.Diff.History.Commit, "commit"})
	}
	for _, need := range needs {
		if need.id == "" && need.kind == "commit" { // an unborn branch
			continue
		}
		if objectID.MatchString(need.id) {
			kind, err := a.source.git().line(ctx, "cat-file", "-t", need.id)
			if err == nil && kind == need.kind {
				continue
			}
			if ctx.Err() != nil {
				return err
			}
		}
		if need.id == o.Diff.BaseTree && need.id == a.source.format.emptyTree() {
			continue
		}
		return &Error{Code: CodeMissingObjects, Param: "RUN",
			Message: fmt.Sprintf("the %s %.64q of the run is neither in the repository nor in the run's directory",
				need.kind, need.id),
			Hint: "fetch it, name another clone with --workspace, or use holon apply " + o.Run}
	}
	return nil
}

// commit makes a commit by the user, dated when the run ended, so that the same
// run gives the same commit.
func (a *assembly) commit(ctx context.Context, tree, parent, subject, trailer string) (string, error) {
	name, email := strings.TrimSpace(a.user.userName), strings.TrimSpace(a.user.userEmail)
	if name == "" || email == "" {
		name, email = whoName, whoEmail
	}
	date := strconv.FormatInt(a.options.At.Unix(), 10) + " +0000"
	g := a.source.git().with("GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+email, "GIT_COMMITTER_DATE="+date)
	args := []string{"commit-tree", tree}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	message := strings.Join(strings.Fields(subject), " ") + "\n\n" + trailer + "\n"
	out, err := g.run(ctx, strings.NewReader(message), args...)
	if err != nil {
		return "", fmt.Errorf("make a commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// quarantine packs what the commit needs beyond the run's base into a fresh
// repository, where every object and link passes the checks of fsck --strict,
// and returns the pack's path.
func (a *assembly) quarantine(ctx context.Context, commit string) (pack string, err error) {
	repo := repository{dir: filepath.Join(a.scratch, "quarantine"), format: a.user.format,
		alternates: []string{a.user.objects}}
	if err := a.create(repo); err != nil {
		return "", err
	}
	return transfer(ctx, a.source, repo, commit, a.options.Info.BaseCommit, maxPack)
}

// transfer moves commit and all it needs beyond base from one repository of
// ours to another through one pack of at most limit bytes. The receiver checks
// every object strictly and that everything an object names is there.
func transfer(ctx context.Context, from, to repository, commit, base string, limit int64) (pack string, err error) {
	want := commit + "\n"
	if base != "" {
		want += "^" + base + "\n"
	}
	read, write := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := from.git().with("GIT_ALLOC_LIMIT="+maxAlloc).within(packTime).stream(ctx, strings.NewReader(want), write,
			"pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset", "--window=0")
		write.CloseWithError(err)
		return err
	})
	var out []byte
	group.Go(func() (err error) {
		out, err = to.git().with("GIT_ALLOC_LIMIT="+maxAlloc).withConfig("core.fsync=none").within(packTime).run(ctx,
			read,
			"index-pack", "--stdin", "--strict", "--max-input-size="+strconv.FormatInt(limit, 10))
		read.CloseWithError(err)
		return err
	})
	if err := group.Wait(); err != nil {
		return "", unsafeObjects(err)
	}
	kind, id, ok := strings.Cut(strings.TrimSpace(string(out)), "\t") // "pack TAB id"
	if !ok || kind != "pack" || !objectID.MatchString(id) {
		return "", fmt.Errorf("check objects: git answered %.100q", out)
	}
	pack = filepath.Join(to.objects(), "pack", "pack-"+id+".pack")
	_, err = os.Stat(pack)
	return pack, err
}

// unsafeObjects tells the refusal of index-pack from other failures.
func unsafeObjects(err error) error {
	failed, ok := asGitError(err)
	if !ok || failed.cause != nil || isFull(err) || failed.command != "index-pack" && failed.command != "pack-objects" {
		return err
	}
	return &Error{Code: CodeUnsafeObjects, Param: "RUN", Message: "the objects of the run don't pass git's checks",
		Err:  err,
		Hint: "the repository was not touched; holon apply takes the change as a patch"}
}
