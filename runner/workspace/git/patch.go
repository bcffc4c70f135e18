package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Patch is a patch that git wrote, with the names of its files in their order.
type Patch struct {
	Path   string
	Before []string // of each file its name before the change; of a new one the name that it gets
	After  []string // of each file its name afterwards; of a deleted one the name that it had
}

// ReadPatch lists the files of a patch.
func ReadPatch(ctx context.Context, repo Repository, path string) (p *Patch, err error) {
	p = &Patch{Path: path}
	if p.After, err = p.names(ctx, repo); err != nil {
		return nil, err
	}
	if p.Before, err = p.names(ctx, repo, "--reverse"); err != nil {
		return nil, err
	}
	slices.Reverse(p.Before) // git undoes the last file first
	if len(p.Before) != len(p.After) {
		return nil, fmt.Errorf("git lists %d files of the patch, and in reverse %d", len(p.After), len(p.Before))
	}
	return p, nil
}

func (p *Patch) names(ctx context.Context, repo Repository, direction ...string) ([]string, error) {
	out, err := p.apply(ctx, repo, "", append(direction, "--numstat", "-z")...)
	if err != nil {
		return nil, err
	}
	return parseNames(out)
}

// parseNames reads `git apply --numstat -z`: "added TAB deleted TAB path NUL".
func parseNames(out []byte) ([]string, error) {
	var names []string
	for line := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		fields := strings.SplitN(string(line), "\t", 3)
		if len(fields) != 3 || fields[2] == "" {
			return nil, fmt.Errorf("git lists the patch with the line %.100q", line)
		}
		names = append(names, fields[2])
	}
	return names, nil
}

// apply runs `git apply` in a repository of ours, where no configuration or attributes of the user or the patch apply.
func (p *Patch) apply(ctx context.Context, repo Repository, index string, arguments ...string) ([]byte, error) {
	g := repo.Git()
	if index != "" {
		g = g.With("GIT_INDEX_FILE=" + index)
		arguments = append([]string{"--cached"}, arguments...)
	}
	return g.Run(ctx, nil, append(append([]string{"apply", "--whitespace=nowarn"}, arguments...), p.Path)...)
}

// Refused reports whether git ran and did not do what it was asked to.
func Refused(err error) bool {
	failed, ok := errors.AsType[*ExitError](err)
	return ok && failed.Cause == nil && !IsDiskFull(err)
}

// maxProbes bounds how often parts of a patch are tried to tell which files conflict.
const maxProbes = 500

// Merge applies the patch to an index, three ways if the contents that it starts from are available. A file that has
// its change already stays as it is. When files conflict, it returns their names afterwards and leaves the index as it
// was; when it cannot tell which, the error is Refused.
func (p *Patch) Merge(ctx context.Context, repo Repository, index string) (conflicts []string, err error) {
	before := index + ".before"
	if err := CopyFile(index, before); err != nil {
		return nil, err
	}
	defer func() {
		if len(conflicts) > 0 || err != nil {
			err = errors.Join(err, CopyFile(before, index))
		}
		err = errors.Join(err, os.Remove(before))
	}()
	_, cause := p.apply(ctx, repo, index, "--3way")
	if !Refused(cause) {
		return nil, cause
	}
	// The whole is tried first, since its files are not all probed.
	if there, err := p.isThere(ctx, repo, before); there || err != nil {
		return nil, errors.Join(err, CopyFile(before, index))
	}
	conflicts, there, err := p.probe(ctx, repo, before)
	if err != nil || len(conflicts) > 0 {
		return conflicts, err
	}
	if len(there) == 0 || len(strings.Join(there, "")) > maxExcluded {
		return nil, cause
	}
	if err := CopyFile(before, index); err != nil {
		return nil, err
	}
	_, err = p.apply(ctx, repo, index, append([]string{"--3way"}, selecting("--exclude=", there)...)...)
	return nil, err
}

// isThere tells whether an index has the change of the files already, or of all: without an error, it could be undone.
func (p *Patch) isThere(ctx context.Context, repo Repository, index string, files ...string) (bool, error) {
	_, err := p.apply(ctx, repo, index, append([]string{"--check", "--reverse"}, selecting("--include=", files)...)...)
	if Refused(err) {
		return false, nil
	}
	return err == nil, err
}

// probe applies parts of the patch to copies of the index, as git's messages name paths in forms that can't be parsed
// safely. It returns the files that don't merge: the ones that conflict and the ones that are there. Each call of git
// reads the whole patch, so a part is halved only while it does not merge.
func (p *Patch) probe(ctx context.Context, repo Repository, index string) (conflicts, there []string, err error) {
	s := &probing{patch: p, repo: repo, index: index, calls: maxProbes}
	defer func() { err = errors.Join(err, removeIfThere(index+".probe")) }()
	seen, size := map[string]bool{}, 0
	var part []int
	for i, name := range p.After {
		if seen[name] {
			continue // a file that becomes a link is deleted and created
		}
		seen[name] = true
		if size += len(name); len(part) == maxPart || len(part) > 0 && size > maxPartNames {
			if err := s.look(ctx, part); err != nil {
				return nil, nil, err
			}
			part, size = nil, len(name)
		}
		part = append(part, i)
	}
	err = s.look(ctx, part)
	return s.conflicts, s.there, err
}

// Bounds of what is said of a patch's files in the arguments of git.
const (
	maxExcluded  = 256 << 10 // bytes of the names of files that are there
	maxPart      = 500
	maxPartNames = 32 << 10 // bytes of the names, which git gets as arguments
)

// probing looks for the files of a patch that don't merge.
type probing struct {
	patch *Patch
	repo  Repository
	index string
	calls int // of git that may still be made

	conflicts, there []string
}

// look probes files of the patch, by their positions.
func (s *probing) look(ctx context.Context, part []int) error {
	if len(part) == 0 || s.calls <= 0 {
		return nil
	}
	s.calls--
	var after, before []string
	for _, i := range part {
		after, before = append(after, s.patch.After[i]), append(before, s.patch.Before[i])
	}
	probe := s.index + ".probe"
	if err := CopyFile(s.index, probe); err != nil {
		return err
	}
	_, err := s.patch.apply(ctx, s.repo, probe, append([]string{"--3way"}, selecting("--include=", after)...)...)
	if err == nil || !Refused(err) {
		return err
	}
	there, err := s.patch.isThere(ctx, s.repo, s.index, before...)
	switch half := len(part) / 2; {
	case err != nil:
		return err
	case there:
		s.there = append(s.there, after...)
	case half == 0:
		s.conflicts = append(s.conflicts, after...)
	default:
		if err := s.look(ctx, part[:half]); err != nil {
			return err
		}
		return s.look(ctx, part[half:])
	}
	return nil
}

func selecting(option string, names []string) (arguments []string) {
	for _, name := range names {
		arguments = append(arguments, option+EscapeWildcards(name))
	}
	return arguments
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Creates tells whether the patch makes a file anew: only the creation of a file applies where there are no files.
func (p *Patch) Creates(ctx context.Context, repo Repository, scratch, name string) (bool, error) {
	_, err := p.apply(ctx, repo, scratch, "--include="+EscapeWildcards(name))
	if Refused(err) {
		return false, nil
	}
	return err == nil, errors.Join(err, removeIfThere(scratch))
}
