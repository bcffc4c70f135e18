// Package projectimage builds the image that a project asks for, in .holon/Dockerfile or a devcontainer.json.
//
// Find reads the recipe and names the image by its content, so that what was built is found again without a record.
// Building is an operator's act: it runs what the repository says, with the network. It sees the directory of the
// recipe and the files at the top that name dependencies (toolchain.Files), and nothing else: no source, which changes
// with every run, and no secret. Not promised: that an image is built again when what it is made from has a new version
// elsewhere.
package projectimage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"holon/internal/toolchain"
	"holon/internal/visible"
	"holon/state"
)

// CodeInvalidRecipe is the code of a recipe that cannot be built.
const CodeInvalidRecipe state.Code = "invalid_image_recipe"

// Places of recipes, in the order in which they count.
const (
	dockerfile = ".holon/Dockerfile"
	devDir     = ".devcontainer"
)

// maxFiles and maxBytes bound what an image is built from.
const (
	maxFiles = 1000
	maxBytes = 64 << 20
)

// Recipe is how the image of a project is built.
type Recipe struct {
	File string // path below the top of the repository
	Tag  string // of the image: by content

	files map[string][]byte // the context, by path
	build *devBuild         // of a Dockerfile; nil where an image is named
	image string
	after []string // commands that run in it then, as arguments of RUN
}

// devcontainer is what is read of a devcontainer.json.
type devcontainer struct {
	Image             string                     `json:"image"`
	Build             *devBuild                  `json:"build"`
	Compose           json.RawMessage            `json:"dockerComposeFile"`
	Features          map[string]json.RawMessage `json:"features"`
	PostCreateCommand json.RawMessage            `json:"postCreateCommand"`
}

// devBuild says how a Dockerfile is built; paths are below the top of the repository.
type devBuild struct {
	Dockerfile string            `json:"dockerfile"`
	Context    string            `json:"context"`
	Target     string            `json:"target"`
	Args       map[string]string `json:"args"`
}

// Find returns the recipe of the repository at top, nil where it has none. Errors are *state.Error with
// CodeInvalidRecipe, whose Param is the file at fault.
func Find(top string) (*Recipe, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("look for the image of the project: %w", err)
	}
	defer root.Close()
	tree := root.FS()
	for _, file := range []string{dockerfile, devDir + "/devcontainer.json", ".devcontainer.json"} {
		if _, err := fs.Stat(tree, file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r := &Recipe{File: file, files: make(map[string][]byte)}
		if err := r.read(tree); err != nil {
			return nil, r.invalid(visible.OneLine(err.Error(), 500))
		}
		return r, nil
	}
	return nil, nil
}

func (r *Recipe) invalid(what string) error {
	return &state.Error{Code: CodeInvalidRecipe, Param: r.File, Message: what,
		Hint: "correct it, or name an image with --image"}
}

func (r *Recipe) read(tree fs.FS) error {
	if err := r.readFiles(tree); err != nil {
		return err
	}
	if r.File == dockerfile {
		r.build = &devBuild{Dockerfile: dockerfile, Context: "."}
	} else if err := r.readDevcontainer(); err != nil {
		return err
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		fmt.Fprintf(sum, "%q %d\n%s", name, len(r.files[name]), r.files[name])
	}
	r.Tag = toolchain.ProjectImages + ":" + hex.EncodeToString(sum.Sum(nil))[:20]
	return nil
}

// readFiles reads what the image is built from: the directory of the recipe, and files that name dependencies.
func (r *Recipe) readFiles(tree fs.FS) error {
	size := 0
	add := func(name string) error {
		data, err := fs.ReadFile(tree, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if size += len(data); err == nil && (size > maxBytes || len(r.files) >= maxFiles) {
			err = fmt.Errorf("the files that it is built from are more than %d, or larger than %s", maxFiles,
				visible.Size(maxBytes))
		}
		r.files[name] = data
		return err
	}
	for _, name := range append(toolchain.Files(), r.File) {
		if err := add(name); err != nil {
			return err
		}
	}
	dir := path.Dir(r.File)
	if dir == "." {
		return nil
	}
	return fs.WalkDir(tree, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return add(name)
	})
}

func (r *Recipe) readDevcontainer() error {
	text, err := hujson.Standardize(r.files[r.File])
	if err != nil {
		return err
	}
	var c devcontainer
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	switch {
	case len(c.Features) > 0:
		return fmt.Errorf("features are not supported: %s; install them in a Dockerfile",
			strings.Join(slices.Sorted(maps.Keys(c.Features)), ", "))
	case c.Compose != nil:
		return errors.New("dockerComposeFile is not supported; name an image or a Dockerfile")
	case strings.Contains(string(text), "${") && c.usesVariables():
		return errors.New("variables such as ${localEnv:NAME} are not supported in image, build and postCreateCommand")
	case c.Build != nil && c.Build.Dockerfile != "":
		r.build = c.Build
		dir := path.Dir(r.File)
		r.build.Dockerfile, r.build.Context = path.Join(dir, c.Build.Dockerfile), path.Join(dir, c.Build.Context)
		if r.files[r.build.Dockerfile] == nil || !fs.ValidPath(r.build.Context) {
			return fmt.Errorf("build.dockerfile has to be a file in %s, and build.context a directory of the repository",
				devDir)
		}
	case len(strings.Fields(c.Image)) == 1 && !strings.HasPrefix(c.Image, "-"):
		r.image = c.Image
	default:
		return errors.New("it names neither an image nor build.dockerfile")
	}
	r.after, err = commands(c.PostCreateCommand)
	return err
}

func (c *devcontainer) usesVariables() bool {
	text, _ := json.Marshal([]any{c.Image, c.Build, c.PostCreateCommand})
	return strings.Contains(string(text), "${local") || strings.Contains(string(text), "${container")
}

// commands returns a command of a devcontainer.json as arguments of RUN: a text for a shell, a list of words, or an
// object of such, by name.
func commands(raw json.RawMessage) (list []string, _ error) {
	var text string
	var words []string
	var several map[string]json.RawMessage
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		words = []string{"/bin/sh", "-c", text}
	case json.Unmarshal(raw, &words) == nil && len(words) > 0:
	case json.Unmarshal(raw, &several) == nil:
		for _, name := range slices.Sorted(maps.Keys(several)) {
			some, err := commands(several[name])
			if err != nil {
				return nil, err
			}
			list = append(list, some...)
		}
		return list, nil
	default:
		return nil, errors.New("postCreateCommand has to be a text, a list of words, or an object of these")
	}
	run, err := json.Marshal(words)
	return []string{string(run)}, err
}
