package credentials

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"holon/internal/bounded"
	"holon/internal/durable"
	"holon/internal/providers"
	"holon/runner/gateway"
	"holon/state"
)

// File is the name of the credentials file in HOLON_HOME.
const File = "credentials.json"

const (
	maxFile     = 1 << 20
	maxProfiles = 1000
	fileMode    = 0o600
)

// Store is the credentials file: keys by the names of profiles. A file that does
// not exist is an empty one. It is read anew for every call.
//
// The file and its directory must belong to this user and be closed to all
// others; anything else is refused with CodeExposed, and links are not followed.
type Store struct{ path string }

// StoreIn returns the store of a home.
func StoreIn(home state.Home) Store { return Store{filepath.Join(home.Dir(), File)} }

// Path returns the file's path.
func (s Store) Path() string { return s.path }

// Profile is a stored key.
type Profile struct {
	Name  string
	Key   gateway.Secret
	SetAt time.Time
}

// document is the file's form. It is never encoded but to be written.
type document struct {
	Profiles map[string]stored `json:"profiles"`
}

type stored struct {
	APIKey string    `json:"api_key"`
	SetAt  time.Time `json:"set_at,omitzero"`
}

// Has reports whether there is a profile of that name.
func (s Store) Has(name string) (bool, error) {
	doc, err := s.read()
	_, ok := doc.Profiles[name]
	return ok, err
}

// Get returns a key. One that is not there is fs.ErrNotExist.
func (s Store) Get(name string) (gateway.Secret, error) {
	doc, err := s.read()
	if err != nil {
		return gateway.Secret{}, err
	}
	p, ok := doc.Profiles[name]
	if !ok {
		return gateway.Secret{}, fmt.Errorf("profile %s: %w", name, fs.ErrNotExist)
	}
	key := gateway.NewSecret(p.APIKey)
	return key, about("profile "+name, Check(key))
}

// List returns all profiles, sorted by name.
func (s Store) List() (list []Profile, err error) {
	doc, err := s.read()
	for name, p := range doc.Profiles {
		list = append(list, Profile{name, gateway.NewSecret(p.APIKey), p.SetAt})
	}
	slices.SortFunc(list, func(a, b Profile) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// Names returns the names of all profiles.
func (s Store) Names() ([]string, error) {
	doc, err := s.read()
	return slices.Collect(maps.Keys(doc.Profiles)), err
}

// Set stores a key, in the place of one of the same name.
func (s Store) Set(name string, key gateway.Secret, now time.Time) error {
	if !providers.ValidName(name) {
		return &state.Error{Code: CodeInvalidKey, Param: "NAME",
			Message: fmt.Sprintf("%.80q is not the name of a profile", name),
			Hint:    "use the provider's name: lower-case letters, digits, _, - and ."}
	}
	if err := Check(key); err != nil {
		return err
	}
	return s.change(func(doc *document) error {
		if doc.Profiles == nil {
			doc.Profiles = make(map[string]stored)
		}
		if _, there := doc.Profiles[name]; !there && len(doc.Profiles) >= maxProfiles {
			return s.unusable("holds as many profiles as it may", nil)
		}
		doc.Profiles[name] = stored{key.Reveal(), now.UTC().Truncate(time.Second)}
		return nil
	})
}

// Remove removes a key. That it is not there is an error with CodeUnknown.
func (s Store) Remove(name string) error {
	if found, err := s.Has(name); err != nil {
		return err
	} else if !found {
		return unknownProfile(name) // nothing is written for it, no lock either
	}
	return s.change(func(doc *document) error {
		if _, ok := doc.Profiles[name]; !ok {
			return unknownProfile(name)
		}
		delete(doc.Profiles, name)
		return nil
	})
}

func unknownProfile(name string) error {
	return &state.Error{Code: CodeUnknown, Param: "NAME", Message: fmt.Sprintf("there is no profile %.80q", name),
		Hint: "see holon credentials list"}
}

// change edits the file under a lock that other writers take too.
func (s Store) change(edit func(doc *document) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return s.unusable("cannot be written", err)
	}
	lock := flock.New(s.path+".lock", flock.SetPermissions(fileMode))
	if err := lock.Lock(); err != nil {
		return s.unusable("cannot be locked", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := s.checkDir(); err != nil {
		return err
	}
	doc, err := s.read()
	if err != nil {
		return err
	}
	if err := edit(&doc); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return s.unusable("cannot be written", nil) // the cause could show a key
	}
	if b.Len() > maxFile {
		return s.unusable("would be too large", nil)
	}
	if err := durable.WriteFile(s.path, b.Bytes(), fileMode); err != nil {
		return s.unusable("cannot be written", err)
	}
	return nil
}

func (s Store) unusable(what string, err error) *state.Error {
	return &state.Error{Code: CodeUnusable, Param: s.path, Message: what,
		Hint: "make it a file of yours in a directory of yours", Err: err}
}

// read returns what the file holds.
func (s Store) read() (doc document, err error) {
	f, err := durable.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) || s.path == "" {
		return doc, nil
	}
	if err != nil {
		return doc, s.unusable("cannot be read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return doc, s.unusable("cannot be read", err)
	}
	if err := s.private(s.path, info, "600"); err != nil {
		return doc, err
	}
	if err := s.checkDir(); err != nil {
		return doc, err
	}
	data, err := bounded.ReadAll(f, maxFile)
	if err != nil {
		return doc, s.unusable("cannot be read", err)
	}
	return s.decode(data)
}

// decode reads the file's content. Its error shows nothing of it.
func (s Store) decode(data []byte) (doc document, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil || dec.More() {
		line := 1 + bytes.Count(data[:min(dec.InputOffset(), int64(len(data)))], []byte("\n"))
		e := s.unusable(fmt.Sprintf(`is not {"profiles": {"NAME": {"api_key": "…"}}} near line %d`, line), nil)
		e.Hint = "correct it, or move it away and set the keys again"
		return document{}, e
	}
	if len(doc.Profiles) > maxProfiles {
		return document{}, s.unusable("holds too many profiles", nil)
	}
	return doc, nil
}

func (s Store) checkDir() error {
	dir := filepath.Dir(s.path)
	info, err := os.Stat(dir)
	if err != nil {
		return s.unusable("its directory cannot be read", err)
	}
	return s.private(dir, info, "700")
}

// private refuses what others can look into.
func (s Store) private(path string, info fs.FileInfo, mode string) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(st.Uid) != os.Geteuid() {
		return &state.Error{Code: CodeExposed, Param: path,
			Message: fmt.Sprintf("belongs to user %d and not to you", st.Uid),
			Hint:    fmt.Sprintf("chown %d %s", os.Geteuid(), path)}
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return &state.Error{Code: CodeExposed, Param: path, Message: fmt.Sprintf("is open to others (mode %04o)", perm),
			Hint: fmt.Sprintf("chmod %s %s", mode, path)}
	}
	return nil
}
