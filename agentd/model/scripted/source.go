package scripted

import (
	_ "embed" // for the demo
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"holon/internal/roots"
	"holon/internal/scenario"
	"holon/responses"
)

//go:embed demo.yaml
var demo []byte

// embedded returns the built-in scenarios.
func embedded() map[string][]byte { return map[string][]byte{"demo": demo} }

// load returns the named scenario. Errors are *responses.Error
// values.
func (t *Transport) load(name string) (*scenario.Scenario, error) {
	if sc := t.builtin[name]; sc != nil {
		return sc, nil
	}
	if name == "" || len(name) > 1024 || strings.ContainsRune(name, 0) {
		return nil, responses.Invalid("model", responses.CodeScenarioNotFound,
			"scripted/ needs the name of a scenario, for example scripted/demo")
	}
	if t.host != "" {
		sc, err := t.loadFrom(filepath.Dir(t.host), filepath.Base(t.host))
		if sc != nil {
			sc.File = name
		}
		if sc != nil || err != nil {
			return sc, err
		}
	}
	if filepath.IsAbs(name) {
		return t.loadAbsolute(filepath.Clean(name))
	}
	if !filepath.IsLocal(name) {
		return nil, responses.Invalid("model", responses.CodeScenarioNotFound,
			fmt.Sprintf("the scenario path %s leaves its directory; name a file beneath %s", scenario.Excerpt(name), t.places()))
	}
	for _, dir := range t.dirs {
		if sc, err := t.loadFrom(dir, name); sc != nil || err != nil {
			return sc, err
		}
	}
	return nil, t.notFound(name)
}

// loadAbsolute loads a file that the operator named or that is in one of the
// directories. Requests may not name others: an error would show their content.
func (t *Transport) loadAbsolute(path string) (*scenario.Scenario, error) {
	if slices.Contains(t.files, path) {
		if sc, err := t.loadFrom(filepath.Dir(path), filepath.Base(path)); sc != nil || err != nil {
			return sc, err
		}
		return nil, t.notFound(path)
	}
	for _, dir := range t.dirs {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		if sc, err := t.loadFrom(dir, rel); sc != nil || err != nil {
			return sc, err
		}
	}
	return nil, t.notFound(path)
}

// loadFrom loads name, with or without its extension, from dir. It returns nil and
// no error when the file does not exist.
func (t *Transport) loadFrom(dir, name string) (*scenario.Scenario, error) {
	root, err := roots.Open(dir)
	if err != nil {
		return nil, nil // a directory that cannot be read holds no scenario
	}
	defer func() { _ = root.Close() }() // only read from
	for _, n := range scenario.FileNames(name) {
		// O_NONBLOCK, because the name may be a pipe.
		f, err := root.OpenFile(n, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, unreadable(filepath.Join(dir, n), err)
		}
		info, err := f.Stat()
		if err != nil || !info.IsDir() {
			sc, err := read(f, filepath.Join(dir, n), info, err)
			_ = f.Close() // only read from
			return sc, err
		}
		_ = f.Close() // only looked at
	}
	return nil, nil
}

// read parses an open file.
func read(f *os.File, path string, info fs.FileInfo, err error) (*scenario.Scenario, error) {
	switch {
	case err != nil:
		return nil, unreadable(path, err)
	case !info.Mode().IsRegular():
		return nil, unreadable(path, errors.New("it is not a regular file"))
	case info.Size() > scenario.MaxFile:
		return nil, invalid(path, fmt.Sprintf("the file has %d bytes, a scenario may have %d", info.Size(), scenario.MaxFile))
	}
	data, err := io.ReadAll(io.LimitReader(f, scenario.MaxFile))
	if err != nil {
		return nil, unreadable(path, err)
	}
	sc, err := scenario.Parse(path, data)
	if err != nil {
		return nil, invalid(path, err.Error())
	}
	return sc, nil
}

func (t *Transport) notFound(name string) *responses.Error {
	return &responses.Error{
		Type: responses.TypeInvalidRequest, Code: responses.CodeScenarioNotFound, Param: "model",
		Message: fmt.Sprintf("there is no scenario %s in %s", scenario.Excerpt(name), t.places()),
		Hint:    "name a YAML file relative to one of these directories, or the built-in scripted/demo",
	}
}

func (t *Transport) places() string {
	if len(t.dirs) == 0 {
		return "the built-in scenarios (no directory is configured)"
	}
	return strings.Join(t.dirs, " or ")
}

func unreadable(path string, err error) *responses.Error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // its path is relative to a root that the user does not know
	}
	e := invalid(path, "the file can't be read: "+err.Error())
	e.Hint = "make it a readable file that does not lead out of its directory"
	return e
}

// invalid returns the error for a scenario file that cannot be played.
func invalid(file, what string) *responses.Error {
	return &responses.Error{
		Type: responses.TypeInvalidRequest, Code: responses.CodeScenarioInvalid, Param: "model",
		Message: fmt.Sprintf("scenario %s: %s", file, what),
	}
}
