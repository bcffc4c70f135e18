// Package image is the ViewImage tool: it shows the model a picture of the
// working tree.
//
// The invariant: what is shown is a regular file within the working tree, also
// behind every symbolic link, of a bounded size, and a picture that package picture
// lets pass. A model that takes no pictures is told so and gets the facts instead.
package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/sys/unix"

	"holon/agentd/tools"
	"holon/internal/bounded"
	"holon/internal/picture"
	"holon/internal/roots"
	"holon/responses/turns"
)

// name is the tool's public name.
const name = "ViewImage"

// Kinds of errors of this tool, in addition to those of package tools.
const (
	kindMissing     = "file_not_found"
	kindNotRegular  = "not_a_file"
	kindTooLarge    = "image_too_large"
	kindUnsupported = "unsupported_image"
	kindRead        = "read_failed"
)

// MaxBytes bounds a picture. In base64 it stays below the 5 MiB that the
// strictest provider takes.
const MaxBytes = 3750 << 10

// arguments are the arguments of ViewImage.
type arguments struct {
	Path   string `json:"path" jsonschema:"file to look at, relative to the root of the working tree"`
	Detail string `json:"detail,omitempty" jsonschema:"low is cheap and coarse, high is fine; default auto"`
}

const description = `Shows you a picture file of the working tree: png, jpeg, gif or webp, at most 3.6 MiB.
Use it to look at screenshots, plots and designs. It does not show text files; use ExecCommand for those.`

// result is the canonical result.
type result struct {
	Path      string `json:"path"` // relative to the working tree
	MediaType string `json:"media_type"`
	Bytes     int64  `json:"bytes"`
	Width     int    `json:"width,omitempty"` // in pixels; absent where the header does not say
	Height    int    `json:"height,omitempty"`
	Detail    string `json:"detail"`
	Shown     bool   `json:"shown"` // the model takes pictures and got this one
}

// tool is ViewImage. It is safe for concurrent use.
type tool struct {
	Family
	def tools.Definition
}

// New returns the tool.
func New() (*tool, error) {
	schema, err := tools.Derive[arguments](map[string]func(*jsonschema.Schema){
		"path":   func(s *jsonschema.Schema) { s.MinLength = new(1) },
		"detail": func(s *jsonschema.Schema) { s.Enum = []any{"low", "high", "auto"} },
	})
	if err != nil {
		return nil, err
	}
	return &tool{def: tools.Definition{Name: name, Description: description, Parameters: schema,
		Traits: turns.Reads(turns.InterruptFinish, "filesystem_read")}}, nil
}

func (t *tool) Definition() tools.Definition { return t.def }

func (t *tool) Run(_ context.Context, env tools.Env, call tools.Call) tools.Output {
	args, bad := tools.Decode[arguments](call)
	if bad != nil {
		return tools.Fail(bad)
	}
	var data []byte
	var rel string
	env.Users.Do(func() { data, rel, bad = read(env.WorkDir, args.Path) })
	if bad != nil {
		return tools.Fail(bad)
	}
	r := result{Path: rel, Bytes: int64(len(data)), Detail: args.Detail, Shown: env.Images}
	if r.Detail == "" {
		r.Detail = "auto"
	}
	info, err := picture.Examine(data)
	if err != nil {
		return tools.Fail(failure(kindUnsupported, "the file cannot be shown: it "+err.Error(), args.Path,
			"make a smaller or sound version in png, jpeg, gif or webp and look at that; look at text with ExecCommand"))
	}
	r.MediaType, r.Width, r.Height = info.MediaType, info.Width, info.Height
	out := tools.Output{Summary: r.summary(), Result: r}
	if env.Images {
		out.Images = []tools.Image{{MediaType: r.MediaType, Detail: r.Detail, Data: data}}
	}
	return out
}

// read returns a file of the tree. It opens without waiting and looks at what it
// got, so that neither a pipe nor a swapped file can hold or mislead it.
func read(tree, path string) ([]byte, string, *tools.Error) {
	rel, ok := tools.Local(tree, path)
	if !ok {
		return nil, "", outside(path)
	}
	root, err := roots.Open(tree)
	if err != nil {
		return nil, "", failure(kindRead, "the working tree cannot be opened: "+err.Error(), path,
			"report this to the operator")
	}
	defer root.Close()
	f, info, err := roots.OpenFile(root, rel)
	if err != nil {
		return nil, "", openError(err, path)
	}
	defer f.Close()
	if info.Size() > MaxBytes {
		return nil, "", tooLarge(path, info.Size())
	}
	data, err := bounded.ReadAll(f, MaxBytes)
	if err != nil { // also when it has grown meanwhile
		return nil, "", failure(kindRead, "the file cannot be read: "+err.Error(), path, "check the path")
	}
	return data, filepath.ToSlash(rel), nil
}

func openError(err error, path string) *tools.Error {
	switch {
	case errors.Is(err, roots.ErrNotRegular):
		return failure(kindNotRegular, "the path is not a plain file", path, "name a picture file")
	case tools.Escapes(err):
		return outside(path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return failure(kindMissing, "the file does not exist", path,
			"list the files that exist, for example with: rg --files")
	}
	return failure(kindRead, "the file cannot be opened: "+errors.Unwrap(err).Error(), path, "check the path")
}

func outside(path string) *tools.Error {
	return failure(tools.KindRootViolation, "the file is outside the working tree", path,
		"copy it into the working tree first, or name another file")
}

func tooLarge(path string, size int64) *tools.Error {
	e := failure(kindTooLarge, fmt.Sprintf("the file has %d bytes and may have %d", size, MaxBytes), path,
		"make a smaller version of it and look at that")
	e.Details["bytes"] = size
	return e
}

func failure(kind, message, path, hint string) *tools.Error {
	return &tools.Error{Kind: kind, Message: message,
		Details: map[string]any{"field": "path", "path": tools.Clip(path, 300)}, RecoveryHint: hint}
}

func (r result) summary() string {
	kind := strings.TrimPrefix(r.MediaType, "image/")
	if r.Width > 0 {
		kind += fmt.Sprintf(", %d×%d", r.Width, r.Height)
	}
	return fmt.Sprintf("%s (%s, %d bytes)", r.Path, kind, r.Bytes)
}

// Family is the results of ViewImage. It implements the family of package tools.
type Family struct{}

func (Family) Owns(canonical tools.Result) bool { return canonical.ToolName == name }

func (Family) Render(canonical tools.Result, _ tools.RenderPolicy) string {
	var r result
	if err := json.Unmarshal(canonical.Result, &r); err != nil {
		return canonical.SummaryText
	}
	if !r.Shown {
		return "Picture not shown, because this model takes no pictures: " + r.summary()
	}
	return "Picture shown: " + r.summary()
}

func (Family) Truncated(tools.Result) bool { return false }
