package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// maxSlots bounds how many runs use one repository at the same time.
const maxSlots = 256

// repositoryCache is the directory that holds the trees made from one directory of the user's: <cache>/trees/<hash of
// the origin>/, with the file source naming the origin and a numbered directory per slot.
type repositoryCache struct{ dir string }

func openCache(cacheDir string, of origin) (repositoryCache, error) {
	text, c := of.String(), repositoryCache{dir: of.cacheIn(cacheDir)}
	for {
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return c, fmt.Errorf("create cache: %w", err)
		}
		if known, err := os.ReadFile(c.source()); err == nil && string(known) == text {
			return c, nil
		}
		err := durable.WriteFile(c.source(), []byte(text), 0o600)
		if !errors.Is(err, fs.ErrNotExist) { // else SweepSlots or Prune removed something between the steps
			return c, err
		}
	}
}

// cacheIn is the directory of an origin.
func (o origin) cacheIn(cacheDir string) string {
	sum := sha256.Sum256([]byte(o.String()))
	return filepath.Join(cacheDir, "trees", hex.EncodeToString(sum[:12]))
}

func (c repositoryCache) source() string { return filepath.Join(c.dir, "source") }

// viewPrefix begins the names of temporary directories in a cache's directory.
const viewPrefix = "view-"

// A slot is one recycled working tree and what the host knows of it, locked by this process. Its files: lock; tree,
// which a container writes; index, the record; git, our objects of the base; result, the repository of the last diff;
// trash; claim, which names the run whose work may be in the tree although the lock is free; place, where the tree
// stands if not here; base, what it is compared with since that moved; staged, files on their way into the tree.
type slot struct {
	dir    string
	number int
	lock   *flock.Flock
	placed string // where the tree stands; "": in the slot
}

func (s *slot) tree() string      { return cmp.Or(s.placed, filepath.Join(s.dir, treeName)) }
func (s *slot) record() string    { return filepath.Join(s.dir, "index") }
func (s *slot) source() string    { return filepath.Join(s.dir, "source.index") } // record of a plain directory
func (s *slot) git() string       { return filepath.Join(s.dir, "git") }
func (s *slot) result() string    { return filepath.Join(s.dir, "result") }
func (s *slot) trash() string     { return filepath.Join(s.dir, "trash") }
func (s *slot) claim() string     { return filepath.Join(s.dir, "claim") }
func (s *slot) placement() string { return filepath.Join(s.dir, "place") }
func (s *slot) base() string      { return filepath.Join(s.dir, "base") }
func (s *slot) staged() string    { return filepath.Join(s.dir, "staged") }

// acquire locks the first slot that is neither locked nor claimed. A lock ends with its process. A claim does
// not, because the content of the tree may not be saved elsewhere yet, and a container may still write there.
func (c repositoryCache) acquire(claim string) (*slot, error) {
	for number := range maxSlots {
		s, err := c.tryLock(number)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		claimed, err := s.claimedBy()
		if err != nil || claimed != "" {
			if err = errors.Join(err, s.unlock()); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.sign(claim); err != nil {
			return nil, errors.Join(err, s.unlock())
		}
		return s, nil
	}
	return nil, &git.Error{Code: codeBusy, Message: fmt.Sprintf("all %d working trees of the repository are in use",
		maxSlots),
		Hint: "wait until a run ends"}
}

// tryLock returns the locked slot, or nil if another process holds it.
func (c repositoryCache) tryLock(number int) (*slot, error) {
	s := &slot{dir: filepath.Join(c.dir, strconv.Itoa(number)), number: number}
	lockFile := filepath.Join(s.dir, "lock")
	for {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, fmt.Errorf("create slot: %w", err)
		}
		s.lock = flock.New(lockFile, flock.SetPermissions(0o600))
		locked, err := s.lock.TryLock()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by Prune between the two steps
		}
		if err != nil {
			return nil, fmt.Errorf("lock slot: %w", err)
		}
		if !locked {
			return nil, nil
		}
		held, heldErr := s.lock.Stat()
		named, namedErr := os.Stat(lockFile)
		if heldErr == nil && namedErr == nil && os.SameFile(held, named) {
			return s, nil
		}
		if err := s.unlock(); err != nil { // locked a file that Prune had just removed
			return nil, err
		}
	}
}

func (s *slot) unlock() error { return s.lock.Unlock() }

// SweepSlots removes the temporary files of processes that were killed while they claimed a tree in cacheDir
// or inspected a repository. It leaves slots in use alone.
func SweepSlots(ctx context.Context, cacheDir string) error {
	views, err := filepath.Glob(filepath.Join(cacheDir, "trees", "*", viewPrefix+"*"))
	for _, view := range views {
		if info, statErr := os.Stat(view); statErr == nil && time.Since(info.ModTime()) > time.Hour {
			err = errors.Join(err, os.RemoveAll(view))
		}
	}
	caches, _ := filepath.Glob(filepath.Join(cacheDir, "trees", "*")) // the pattern is right
	for _, dir := range caches {
		err = errors.Join(err, durable.Sweep(dir)) // openCache writes again what this takes from it
	}
	if err != nil {
		return git.WithCode("sweep caches", err)
	}
	locks, err := filepath.Glob(filepath.Join(cacheDir, "trees", "*", "*", "lock"))
	if err != nil {
		return git.WithCode("sweep working trees", err)
	}
	for _, file := range locks {
		if err := ctx.Err(); err != nil {
			return git.WithCode("sweep working trees", err)
		}
		dir := filepath.Dir(file)
		number, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue // not ours
		}
		s, err := repositoryCache{dir: filepath.Dir(dir)}.tryLock(number)
		if s != nil {
			err = errors.Join(durable.Sweep(s.dir), s.unlock())
		}
		if err != nil {
			return git.WithCode("sweep working trees", err)
		}
	}
	return nil
}

// sign claims the slot durably, if it is to be claimed.
func (s *slot) sign(claim string) error {
	if claim == "" {
		return nil
	}
	if err := durable.WriteFile(s.claim(), []byte(claim), 0o600); err != nil {
		return fmt.Errorf("claim the slot: %w", err)
	}
	return nil
}

const maxClaim = 256

// claimedBy returns the claim on the slot, "" for none.
func (s *slot) claimedBy() (string, error) {
	data, err := os.ReadFile(s.claim())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the slot's claim: %w", err)
	}
	return string(data[:min(len(data), maxClaim)]), nil
}

// disclaim removes the marks, and the claim.
func (s *slot) disclaim() error {
	err := os.RemoveAll(s.marks())
	if err == nil {
		err = os.Remove(s.claim())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("give up the slot's claim: %w", err)
	}
	return nil
}

// clear removes everything but the lock, the empty trash and the claim, which goes last, with the lock still held.
func (s *slot) clear(ctx context.Context) error {
	if err := s.takeBack(false); err != nil {
		return err
	}
	return s.discard(ctx, func(name string) bool { return name != "lock" && name != "claim" })
}

// discard removes the files and directories of the slot that go.
func (s *slot) discard(ctx context.Context, goes func(name string) bool) error {
	bin, err := folder.OpenTrash(s.trash())
	if err != nil {
		return err
	}
	defer bin.Close()
	dir, err := folder.Open(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	for _, name := range names {
		if name != "trash" && goes(name) {
			err = errors.Join(err, bin.Take(dir, name))
		}
	}
	if err = errors.Join(err, bin.Empty(ctx)); err != nil {
		return fmt.Errorf("discard files of a slot: %w", err)
	}
	return nil
}

// abandon renames a tree that can't be cleaned, for example because of files of another user, so that the slot stays
// usable. Prune tries again to remove it.
func (s *slot) abandon() error {
	for n := range 1000 {
		name := filepath.Join(s.dir, "dead-"+strconv.Itoa(n))
		if err := folder.RenameNew(unix.AT_FDCWD, s.tree(), unix.AT_FDCWD, name); err != unix.EEXIST {
			if err != nil {
				return fmt.Errorf("abandon tree: %w", err)
			}
			return nil
		}
	}
	return errors.New("abandon tree: too many abandoned trees")
}

// Prune deletes the cached trees of directories that no longer exist, and trees that earlier runs could not
// delete. Trees in use stay. It returns the directories whose trees it deleted. A dry run changes nothing and returns
// those whose trees it would delete once the claims are given up that freed reports.
func Prune(ctx context.Context, cacheDir string, dry bool, freed func(Claim) bool) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(cacheDir, "trees"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var forgotten []string
	for _, e := range entries {
		c := repositoryCache{dir: filepath.Join(cacheDir, "trees", e.Name())}
		source, vanished := c.vanished()
		inUse, pruneErr := c.pruneSlots(ctx, vanished, dry, freed)
		if vanished && !inUse && pruneErr == nil {
			forgotten = append(forgotten, source)
			if !dry {
				pruneErr = os.RemoveAll(c.dir) // only locks and files of ours are left
			}
		}
		if pruneErr != nil {
			err = errors.Join(err, fmt.Errorf("prune %s: %w", c.dir, pruneErr))
		}
	}
	return forgotten, git.WithCode("prune workspaces", err)
}

// vanished reports whether the directory that the trees were made from is gone, so that no run can use them again.
func (c repositoryCache) vanished() (path string, gone bool) {
	source, err := os.ReadFile(c.source())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if len(source) == 0 { // unless it is being made right now
		info, err := os.Stat(c.dir)
		return "", err == nil && time.Since(info.ModTime()) > time.Hour
	}
	of, ok := parseOrigin(string(source))
	if !ok { // of an older version
		return string(source), true
	}
	return of.top, of.gone()
}

func (c repositoryCache) pruneSlots(ctx context.Context, vanished, dry bool, freed func(Claim) bool) (inUse bool,
	err error) {
	entries, err := os.ReadDir(c.dir)
	for _, e := range entries {
		number, numberErr := strconv.Atoi(e.Name())
		if numberErr != nil {
			continue
		}
		s, lockErr := c.tryLock(number)
		if lockErr != nil || s == nil {
			inUse = true
			err = errors.Join(err, lockErr)
			continue
		}
		claimed, slotErr := s.claimedBy()
		switch {
		case slotErr != nil || claimed != "" && !(dry && freed(Claim{Slot: s.dir, By: claimed})):
			inUse = true
		case dry:
		case vanished:
			slotErr = s.clear(ctx)
		default: // what abandon renamed
			slotErr = s.discard(ctx, func(name string) bool { return strings.HasPrefix(name, "dead-") })
		}
		err = errors.Join(err, slotErr, s.unlock())
	}
	return inUse, err
}
