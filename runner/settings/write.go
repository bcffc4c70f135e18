package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"holon/internal/durable"
	"holon/state"
)

// codeFileUnusable is the code of errors about a file that cannot be changed.
const codeFileUnusable state.Code = "settings_unusable"

// Set changes one key of the person's file at path and creates the file if it is absent. It does not change
// an invalid file or write an invalid value, which is also one that a check refuses: checks see the defaults with the
// value. Errors are *state.Error values, or those of checks.
func Set(path, text, value string, checks ...func(*Settings) error) error {
	segments := split(text)
	k, name, found := lookup(segments)
	if found == matchGroup {
		if perhaps := strings.Split(text, "."); len(perhaps) > 2 { // a key of a provider, misspelt
			return unknownKey(text, perhaps, matchNone)
		}
		return &state.Error{Code: CodeUnknownKey, Param: "KEY",
			Message: fmt.Sprintf("%.100q is a group of settings", text),
			Hint:    "name one of them; see holon config schema"}
	}
	if found != matchKey {
		return unknownKey(text, segments, found)
	}
	n, err := k.parseText(value)
	if err != nil {
		return &state.Error{Code: CodeInvalid, Param: "VALUE", Message: err.Error(), Hint: "correct it"}
	}
	v, what, remedy := k.parse(n)
	if what != "" {
		return &state.Error{Code: CodeInvalid, Param: "VALUE", Message: what, Hint: remedy}
	}
	probe := Default()
	k.value(&probe, name).Set(v)
	for _, check := range checks {
		if err := check(&probe); err != nil {
			return err
		}
	}
	return change(path, func(root map[string]any) bool {
		put(root, segments, shown(v))
		return true
	})
}

// Unset removes a key, or all keys of a group, from the person's file. removed says whether one was set.
func Unset(path, text string) (removed bool, err error) {
	segments := split(text)
	if _, _, found := lookup(segments); found != matchKey && found != matchGroup {
		return false, unknownKey(text, segments, found)
	}
	err = change(path, func(root map[string]any) bool {
		removed = remove(root, segments)
		return removed
	})
	return removed, err
}

// change edits the file while it holds the lock that all writers take.
func change(path string, edit func(root map[string]any) (changed bool)) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fileError(path, err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return fileError(path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	root, err := current(path)
	if err != nil {
		return err
	}
	if !edit(root) {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	if b.Len() > maxFile {
		return fileError(path, fmt.Errorf("it would be larger than %d KiB", maxFile>>10))
	}
	if err := durable.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return fileError(path, err)
	}
	return nil
}

func fileError(path string, err error) error {
	return &state.Error{Code: codeFileUnusable, Param: path, Message: "cannot be changed",
		Hint: "make it a file of yours in a directory of yours", Err: err}
}

// current reads the present file. It refuses an invalid one, which would be written back.
func current(path string) (root map[string]any, err error) {
	l := &Loaded{Settings: Default(), origins: make(map[string]origin)}
	l.user(path)
	if err := l.Err(); err != nil {
		return nil, err
	}
	root = make(map[string]any)
	data, _, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return root, nil
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // numbers are written as they were
	if err := dec.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil, fileError(path, err)
	}
	return root, nil
}

// put sets the value at a path and creates the objects on the way. A string where an object is needed is the
// short form of model.default.
func put(root map[string]any, path []string, value any) {
	if len(path) == 1 {
		root[path[0]] = value
		return
	}
	below, isObject := root[path[0]].(map[string]any)
	if !isObject {
		below = make(map[string]any)
		if short := root[path[0]]; short != nil {
			below["default"] = short
		}
		root[path[0]] = below
	}
	put(below, path[1:], value)
}

// remove removes the value at a path, and the objects that are empty then.
func remove(root map[string]any, path []string) bool {
	value, found := root[path[0]]
	below, isObject := value.(map[string]any)
	switch {
	case !found:
		return false
	case len(path) == 1, !isObject && slices.Equal(path, []string{"model", "default"}):
	case !remove(below, path[1:]):
		return false
	case len(below) > 0:
		return true
	}
	delete(root, path[0])
	return true
}

// Path returns the person's file in a home.
func Path(home state.Home) string { return filepath.Join(home.Dir(), UserFile) }

// Tilde shortens a path below the user's home.
func Tilde(path, userHome string) string {
	if rest, ok := strings.CutPrefix(path, userHome+"/"); ok && userHome != "" {
		return "~/" + rest
	}
	return path
}
