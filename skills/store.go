package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/internal/roots"
)

// lockName pins the digests of the skills installed in the same folder.
const lockName = "skills.lock.json"

const (
	lockSchema = "holon.skills/1"
	maxLock    = 4 << 20 // bytes
)

// Pin is what is known of an installed skill.
type Pin struct {
	Name        string    `json:"name"`
	Source      string    `json:"source"` // as it was given
	Commit      string    `json:"commit,omitempty"`
	Path        string    `json:"path,omitempty"` // within the source's repository
	Digest      string    `json:"digest"`
	InstalledAt time.Time `json:"installed_at"`
}

// States of an installed skill.
const (
	stateOK       = "ok"
	stateChanged  = "changed"  // its files are not those that were pinned
	stateMissing  = "missing"  // it is pinned and its files are gone
	stateUnpinned = "unpinned" // it was not installed by us
)

// Installed is a skill of a Store.
type Installed struct {
	Pin
	State string `json:"state"`
	Dir   string `json:"dir"`
}

// Store is a folder of installed skills. Several processes may use it.
//
// A skill is complete or absent: it is copied under a temporary name, its digest is
// written to lockName, and then it is renamed into place. Where a crash or a
// power cut leaves files that do not have the digest, they are not used until
// the skill is installed again.
type Store struct{ dir string }

// NewStore returns the store in dir, which need not exist.
func NewStore(dir string) Store { return Store{dir} }

// Install is what is to be installed.
type Install struct {
	Folder string // with the SKILL.md; may be temporary
	Pin    Pin    // Source, Commit and Path; Digest, when it is set, must be that of the folder
	Update bool   // replace a pin that differs
	Now    time.Time
}

// Install copies a skill into the store, under the name in its front matter, and
// pins its digest. A skill that is there already must have the same digest,
// unless the caller wants to update it. Errors about the skill are *InvalidSkill;
// after one the store is as it was.
func (s Store) Install(ctx context.Context, in Install) (pin Pin, err error) {
	to, unlock, err := s.open()
	if err != nil {
		return Pin{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	lock, err := readLock(to, s.dir)
	if err != nil {
		return Pin{}, err
	}
	from, err := os.OpenRoot(in.Folder)
	if err != nil {
		return Pin{}, noFolder(in.Folder, err)
	}
	defer from.Close()
	front, problem := readFront(from, File, filepath.Join(in.Folder, File))
	if problem != nil {
		return Pin{}, problem
	}
	name := front.Name
	temp := newPrefix + name
	c := &copying{from: from, to: to, source: in.Folder}
	if err := c.all(ctx, temp); err != nil {
		return Pin{}, errors.Join(err, to.RemoveAll(temp))
	}
	pin = in.Pin
	pin.Name, pin.InstalledAt = name, in.Now.UTC().Truncate(time.Second)
	if pin.Digest, err = digestOf(filepath.Join(s.dir, temp)); err == nil {
		err = s.replace(to, lock, pin, in)
	}
	return pin, errors.Join(err, to.RemoveAll(temp))
}

// replace puts the copied skill into the place of what is there, if it may.
func (s Store) replace(to *os.Root, lock *lockFile, pin Pin, in Install) error {
	name := pin.Name
	bad := func(field, message, hint string) error {
		return &InvalidSkill{Code: codeDigest, Path: filepath.Join(s.dir, name), Field: field, Message: message,
			Hint: hint}
	}
	if in.Pin.Digest != "" && in.Pin.Digest != pin.Digest {
		return bad("digest", fmt.Sprintf("it should be %s and is %s", in.Pin.Digest, pin.Digest),
			"look at what changed at the source")
	}
	_, err := to.Lstat(name)
	present := err == nil
	known, pinned := lock.Skills[name]
	switch {
	case present && !pinned:
		return &InvalidSkill{Code: codeDuplicate, Path: filepath.Join(s.dir, name), Field: "name",
			Message: fmt.Sprintf("there is a folder %q that was not installed", name), Hint: "move it away first"}
	case pinned && known.Digest != pin.Digest && !in.Update:
		return bad("digest", fmt.Sprintf("%q is pinned to %s and the source has %s", name, known.Digest, pin.Digest),
			"look at what changed, and pin the new one with --update")
	case pinned && known.Digest == pin.Digest && present:
		if now, err := digestOf(filepath.Join(s.dir, name)); err == nil && now == pin.Digest {
			return nil // it is there
		}
	}
	before := maps.Clone(lock.Skills)
	lock.Skills[name] = pin
	if err := lock.write(s.dir); err != nil {
		return err
	}
	if err := s.swap(name, present); err != nil {
		lock.Skills = before
		return errors.Join(err, lock.write(s.dir))
	}
	return nil
}

// swap gives the copy its name. What had that has the temporary one then.
func (s Store) swap(name string, present bool) (err error) {
	temp, final := filepath.Join(s.dir, newPrefix+name), filepath.Join(s.dir, name)
	if present {
		err = folder.Swap(temp, final)
	} else {
		err = os.Rename(temp, final)
	}
	if err != nil {
		return fmt.Errorf("install skill %q: %w", name, err)
	}
	return nil
}

// List returns what is installed, by name, each compared with its pin. It
// writes nothing.
func (s Store) List() ([]Installed, error) {
	dir, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the installed skills: %w", err)
	}
	defer dir.Close()
	lock, err := readLock(dir, s.dir)
	if err != nil {
		return nil, err
	}
	names, err := candidates(dir)
	if err != nil {
		return nil, fmt.Errorf("list the installed skills: %w", err)
	}
	for name := range lock.Skills {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list := make([]Installed, 0, len(names))
	for _, name := range names {
		list = append(list, s.state(dir, lock, name))
	}
	return list, nil
}

func (s Store) state(dir *os.Root, lock *lockFile, name string) Installed {
	pin, pinned := lock.Skills[name]
	pin.Name = name
	i := Installed{Pin: pin, State: stateOK, Dir: filepath.Join(s.dir, name)}
	if _, err := dir.Lstat(name); err != nil {
		i.State = stateMissing
	} else if !pinned {
		i.State = stateUnpinned
	} else if now, err := digestOf(i.Dir); err != nil || now != pin.Digest {
		i.State = stateChanged
	}
	return i
}

// Remove removes an installed skill.
func (s Store) Remove(name string) (err error) {
	if !validName(name) {
		return &InvalidSkill{Code: codeNoSkill, Path: name, Field: "name", Message: "it is not the name of a skill",
			Hint: "see what is installed"}
	}
	to, unlock, err := s.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	lock, err := readLock(to, s.dir)
	if err != nil {
		return err
	}
	_, statErr := to.Lstat(name)
	if _, pinned := lock.Skills[name]; !pinned {
		return &InvalidSkill{Code: codeNoSkill, Path: name, Field: "name", Message: "no such skill was installed",
			Hint: "see what is installed"}
	}
	if statErr == nil {
		if err := to.Rename(name, newPrefix+name); err != nil {
			return fmt.Errorf("remove skill %q: %w", name, err)
		}
	}
	delete(lock.Skills, name)
	return errors.Join(lock.write(s.dir), to.RemoveAll(newPrefix+name))
}

// open makes the folder, locks it against other writers and clears what a crash
// left.
func (s Store) open() (to *os.Root, unlock func() error, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the folder of installed skills: %w", err)
	}
	if to, err = os.OpenRoot(s.dir); err != nil {
		return nil, nil, fmt.Errorf("open the folder of installed skills: %w", err)
	}
	guard, err := to.OpenFile(".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("lock the installed skills: %w", err), to.Close())
	}
	unlock = func() error { return errors.Join(guard.Close(), to.Close()) }
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("lock the installed skills: %w", err), unlock())
	}
	entries, err := fs.ReadDir(to.FS(), ".")
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), newPrefix) {
			err = errors.Join(err, to.RemoveAll(entry.Name()))
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("clear the installed skills: %w", err), unlock())
	}
	return to, unlock, nil
}

// lockFile is lockName.
type lockFile struct {
	Schema string         `json:"schema"`
	Skills map[string]Pin `json:"skills"`
}

// readLock reads the lockName of dir, which is called path. None is an empty one.
func readLock(dir *os.Root, path string) (*lockFile, error) {
	lock := &lockFile{Schema: lockSchema, Skills: make(map[string]Pin)}
	bad := func(err error) error {
		return &InvalidSkill{Code: codeDigest, Path: filepath.Join(path, lockName), Message: "the pins can't be read",
			Hint: "restore the file, or remove it and install the skills again", Err: err}
	}
	f, _, err := roots.OpenFile(dir, lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return lock, nil
	}
	if err != nil {
		return nil, bad(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxLock+1))
	if err == nil {
		err = decodeLock(data, lock)
	}
	if err != nil {
		return nil, bad(err)
	}
	return lock, nil
}

func decodeLock(data []byte, lock *lockFile) error {
	if len(data) > maxLock {
		return fmt.Errorf("it has more than %d bytes", maxLock)
	}
	var read lockFile
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	if read.Schema != lockSchema {
		return fmt.Errorf("its schema is %.40q and should be %q", read.Schema, lockSchema)
	}
	for name, pin := range read.Skills {
		if !validName(name) || !strings.HasPrefix(pin.Digest, "sha256:") {
			return fmt.Errorf("the pin of %.80q is not one", name)
		}
		lock.Skills[name] = pin
	}
	return nil
}

func (l *lockFile) write(dir string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the pins of skills: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, lockName), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the pins of skills: %w", err)
	}
	return nil
}

// checkPin refuses a staged copy of an installed skill that is not what was
// pinned. source is the folder that it was copied from.
func checkPin(to *os.Root, temp, source string) error {
	home, err := os.OpenRoot(filepath.Dir(source))
	if err != nil {
		return nil //nolint:nilerr // a folder that cannot be looked at pins nothing
	}
	defer home.Close()
	lock, err := readLock(home, filepath.Dir(source))
	if err != nil {
		return err
	}
	pin, pinned := lock.Skills[filepath.Base(source)]
	if !pinned {
		return nil
	}
	copied, err := to.OpenRoot(temp)
	if err != nil {
		return fmt.Errorf("check skill %q: %w", source, err)
	}
	defer copied.Close()
	now, err := digest(copied, source)
	if err == nil && now != pin.Digest {
		err = &InvalidSkill{Code: codeDigest, Path: source, Field: "digest",
			Message: fmt.Sprintf("it is pinned to %s and is %s", pin.Digest, now), Hint: "install the skill again"}
	}
	return err
}
