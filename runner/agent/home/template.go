package home

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"holon/internal/roots"
	"holon/internal/visible"
	"holon/state"
)

// Codes of errors (*state.Error) about templates and homes.
const (
	codeTemplateNotFound state.Code = "template_not_found"
	codeTemplateInvalid  state.Code = "template_invalid"      // Param names the file or the selector
	codeTemplateFetch    state.Code = "template_fetch_failed" // of a URL
	codeTemplateSkill    state.Code = "template_skill_unavailable"
)

// Bounds of a template.
const (
	maxInstructions = 256 << 10 // bytes of AGENTS.md
	maxManifest     = 64 << 10  // of skills.json
	maxRefs         = 64
	maxTemplateID   = 64
)

const manifestFile = "skills.json"

// Kinds of sources.
const (
	kindBuiltin  = "builtin"     // the copy within holon
	kindTemplate = "template_id" // a directory of the templates
	kindLocal    = "local_path"
	kindRemote   = "remote" // a directory of a repository
)

// Provenance says from which template a home was made.
type Provenance struct {
	Schema    string    `json:"schema"`
	Selector  string    `json:"selector"` // as it was given
	Kind      string    `json:"source_kind"`
	Path      string    `json:"source_path,omitempty"`
	Digest    string    `json:"digest"` // of AGENTS.md and skills.json as they were
	Skills    []string  `json:"skill_refs"`
	AppliedAt time.Time `json:"applied_at"`
}

// provenanceSchema is the value of Provenance.Schema.
const provenanceSchema = "holon.agent_template/1"

// template is a template as it was read.
type template struct {
	selector, kind, path string
	agents               []byte // AGENTS.md
	manifest             []byte // skills.json; nil for none
	refs                 []string
}

// resolve reads the template that selector names. Errors are *state.Error.
func (h *Homes) resolve(ctx context.Context, selector string) (*template, error) {
	switch {
	case isURL(selector):
		dir, remove, err := h.fetch(ctx, "template", selector)
		if err != nil {
			return nil, err
		}
		defer remove()
		t, err := read(selector, kindRemote, dir)
		if err != nil {
			return nil, err
		}
		t.path = "" // it is removed
		return t, t.checkForeign()
	case filepath.IsAbs(selector):
		return read(selector, kindLocal, filepath.Clean(selector))
	case !validTemplateID(selector):
		return nil, &state.Error{Code: codeTemplateInvalid, Param: "template",
			Message: fmt.Sprintf("%.100q names no template", selector),
			Hint: "give the id of a template, such as " + Default + ", or the absolute path of a directory with an " +
				agentsFile + ", or https://github.com/OWNER/REPO/tree/REF/PATH"}
	}
	dir := filepath.Join(h.opts.Templates, selector)
	if h.opts.Templates != "" {
		if _, err := os.Lstat(dir); err == nil {
			return read(selector, kindTemplate, dir)
		}
	}
	if text, ok := builtinText(selector); ok {
		return &template{selector: selector, kind: kindBuiltin, agents: text}, nil
	}
	return nil, &state.Error{Code: codeTemplateNotFound, Param: "template",
		Message: fmt.Sprintf("there is no template %s in %s", selector, h.opts.Templates),
		Hint:    "put one there, give the absolute path of a directory, or use one of " + Default + ", " + developer}
}

// checkForeign refuses skills of a fetched template that lead to this machine: its author would choose what of it the
// agent sees.
func (t *template) checkForeign() error {
	scheme, _, _ := strings.Cut(t.selector, ":")
	for i, ref := range t.refs {
		if !strings.HasPrefix(ref, "https://") && !strings.HasPrefix(ref, scheme+"://") {
			return &state.Error{Code: codeTemplateSkill, Param: fmt.Sprintf("skill_refs[%d]", i),
				Message: fmt.Sprintf("a template that is fetched names the skill %.100q, which is not fetched by https", ref),
				Hint:    "clone the template and give the absolute path of the directory"}
		}
	}
	return nil
}

// isURL reports whether a template or a skill is a directory of a repository.
func isURL(name string) bool {
	return !filepath.IsAbs(name) && (strings.Contains(name, "://") || strings.HasPrefix(name, "git@"))
}

// fetch gets a directory of a repository. Its name is the last one of the URL, as that of a skill has to be.
func (h *Homes) fetch(ctx context.Context, param, url string) (dir string, remove func(), err error) {
	failed := func(err error) error {
		return &state.Error{Code: codeTemplateFetch, Param: param, Err: err,
			Message: fmt.Sprintf("%.200q can't be fetched: %s", url, visible.OneLine(err.Error(), 400)),
			Hint:    "give https://github.com/OWNER/REPO/tree/REF/PATH, or the absolute path of a directory"}
	}
	if h.opts.Fetch == nil {
		return "", nil, failed(errors.New("nothing is fetched here"))
	}
	made, err := os.MkdirTemp(h.opts.Home.CacheDir(), "template-")
	if err != nil {
		return "", nil, fmt.Errorf("fetch a template: %w", err)
	}
	remove = func() {
		if err := os.RemoveAll(made); err != nil {
			h.opts.Log.Warn("a fetched template was not removed", "err", err)
		}
	}
	dir = filepath.Join(made, path.Base("/"+strings.TrimSuffix(strings.TrimRight(url, "/"), ".git")))
	if err = os.Mkdir(dir, 0o700); err == nil {
		err = h.opts.Fetch(ctx, url, dir)
	}
	if err != nil {
		remove()
		if ctx.Err() != nil {
			return "", nil, fmt.Errorf("fetch a template: %w", err)
		}
		return "", nil, failed(err)
	}
	return dir, remove, nil
}

// validTemplateID keeps ids safe as names of directories.
func validTemplateID(id string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return id != "" && len(id) <= maxTemplateID && strings.Trim(id[:1], letters) == "" &&
		strings.Trim(id, letters+"-_.") == ""
}

// read reads a template's directory. Of what lies there only the two files count,
// and no link is followed out of it.
func read(selector, kind, dir string) (*template, error) {
	root, err := roots.Open(dir)
	if err != nil {
		code := codeTemplateInvalid
		if errors.Is(err, fs.ErrNotExist) {
			code = codeTemplateNotFound
		}
		return nil, &state.Error{Code: code, Param: "template",
			Message: fmt.Sprintf("the template %.200q can't be read: %s", selector, visible.OneLine(err.Error(), 400)),
			Hint:    "name a directory with an " + agentsFile}
	}
	defer root.Close()
	t := &template{selector: selector, kind: kind, path: dir}
	if t.agents, err = readFile(root, agentsFile, maxInstructions); err != nil {
		return nil, broken(agentsFile, selector, err)
	}
	if !utf8.Valid(t.agents) || len(bytes.TrimSpace(t.agents)) == 0 {
		return nil, broken(agentsFile, selector, errors.New("it holds no text"))
	}
	t.manifest, err = readFile(root, manifestFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		if _, dangling := root.Lstat(manifestFile); dangling != nil {
			return t, nil
		}
	}
	if err != nil {
		return nil, broken(manifestFile, selector, err)
	}
	t.refs, err = parseManifest(t.manifest)
	return t, err
}

func broken(file, selector string, err error) error {
	return &state.Error{Code: codeTemplateInvalid, Param: file,
		Message: fmt.Sprintf("%s of the template %.200q can't be used: %s", file, selector,
			visible.OneLine(err.Error(), 400)), Hint: "correct the template"}
}

// readFile reads a bounded regular file.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	f, _, err := roots.OpenFile(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d KiB", limit>>10)
	}
	return data, err
}

// parseManifest reads skills.json: {"skill_refs": [...]}. A reference is the absolute path of a skill, or the URL of
// one. Others are refused: no skill is built in.
func parseManifest(data []byte) ([]string, error) {
	var m struct {
		Refs []string `json:"skill_refs"`
	}
	err := json.Unmarshal(data, &m, json.RejectUnknownMembers(true))
	if err == nil && len(m.Refs) > maxRefs {
		err = fmt.Errorf("it lists %d skills, and may list %d", len(m.Refs), maxRefs)
	}
	if err != nil {
		return nil, &state.Error{Code: codeTemplateInvalid, Param: manifestFile,
			Message: "skills.json of the template can't be used: " + visible.OneLine(err.Error(), 400),
			Hint:    `write {"skill_refs": ["/absolute/path/of/a/skill"]}`}
	}
	for i, ref := range m.Refs {
		param := fmt.Sprintf("skill_refs[%d]", i)
		switch {
		case filepath.IsAbs(ref):
			m.Refs[i] = filepath.Clean(ref)
		case isURL(ref):
		default:
			return nil, &state.Error{Code: codeTemplateSkill, Param: param,
				Message: fmt.Sprintf("there is no built-in skill %.100q", ref),
				Hint:    "give the absolute path of the skill's directory, or https://github.com/OWNER/REPO/tree/REF/PATH"}
		}
	}
	return m.Refs, nil
}

// digest names what a template consists of.
func (t *template) digest() string {
	sum := sha256.New()
	for _, part := range [][]byte{t.agents, t.manifest} {
		fmt.Fprintf(sum, "%d\n%s", len(part), part)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

func (t *template) provenance(now time.Time) Provenance {
	refs := t.refs
	if refs == nil {
		refs = []string{}
	}
	return Provenance{Schema: provenanceSchema, Selector: t.selector, Kind: t.kind, Path: t.path, Digest: t.digest(),
		Skills: refs, AppliedAt: now.UTC().Truncate(time.Second)}
}

// guidanceMark is how it is known that a template has the guidance already.
const guidanceMark = "<!-- holon: agent home -->"

// guidance is what every AGENTS.md of a home says of it.
const guidance = guidanceMark + `

## My home

This directory is my home. It stays between turns, while processes, the rest of the container and the working trees ` +
	`of single tasks may go.

- ` + "`memory/self.md`" + `: what I want to remember of myself and my work. ` +
	"`memory/operator.md`" + `: what I know of my operator.
- ` + "`notes/`" + `: longer notes, by subject. ` +
	"`work/`" + `: what I make, a directory for each task. ` + "`skills/`" + `: skills of my own.
- ` + "`.holon/`" + ` belongs to the runtime.
`

const selfMemory = "# What I remember of myself and my work\n\nShort entries, dated, the newest first. Corrected " +
	"rather than added to.\n"

const operatorMemory = "# What I know of my operator\n\nWishes, habits, names and places that matter for the work. " +
	"No secrets.\n"

// instructions is the AGENTS.md that a home gets.
func (t *template) instructions() []byte {
	text := append(bytes.TrimRight(bytes.Clone(t.agents), " \n"), '\n')
	if bytes.Contains(text, []byte(guidanceMark)) {
		return text
	}
	return append(text, "\n"+guidance...)
}
