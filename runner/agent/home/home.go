// Package home makes the home directories of agents from templates
// (runtime specification, "Agent Initialization Contract").
//
//	<home>/AGENTS.md            how the agent works; its own from then on
//	<home>/memory/self.md       what it remembers of itself and its work
//	<home>/memory/operator.md   what it knows of its operator
//	<home>/notes/ work/ skills/
//	<home>/.holon/              the host's; the agent's container cannot see it
//	<home>/.holon/state/template.json   from which template it was made
//
// The invariant: a home exists whole or not at all, and no file of an existing home
// is overwritten. The agent may have put anything into its home, so the home is read
// and written without following a link out of it.
package home

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/internal/redact"
	"holon/internal/roots"
	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/skills"
	"holon/state"
	"holon/state/ledger"
)

// Names within a home.
const (
	agentsFile     = "AGENTS.md"
	skillsDir      = "skills"
	provenanceFile = ".holon/state/template.json"

	newPrefix = ".new-" // of a home that is being made
)

// Options say where homes and templates are.
type Options struct {
	Home state.Home
	// absolute: .agents/templates in the user's home directory; any other path: there are none
	Templates string
	// Fetch gets the directory of a repository that a URL names into an empty one; nil: templates and their skills are on
	// this machine.
	Fetch   func(ctx context.Context, url, dir string) error
	Secrets *redact.Set      // taken out of the texts that are read; nil: none are known
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: nothing is logged
}

// Homes makes homes. All methods are safe for concurrent use.
type Homes struct{ opts Options }

// New returns what makes homes. It touches nothing.
func New(o Options) *Homes {
	if !filepath.IsAbs(o.Templates) { // the user has no home directory
		o.Templates = ""
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Homes{opts: o}
}

// Create makes the home of a new agent from the template that selector names: a
// template's id, the absolute path of a directory, or a URL of one; "" is Default. A home that
// is there already is ledger.CodeExists. Other errors have the codes of Resolve,
// or view.CodeHomeUnusable; after any of them nothing is left.
func (h *Homes) Create(ctx context.Context, id, selector string) error {
	if err := state.CheckAgentID(id); err != nil {
		return err
	}
	if _, err := os.Lstat(h.opts.Home.AgentDir(id)); err == nil {
		return exists(id)
	}
	t, err := h.resolve(ctx, cmp.Or(selector, Default))
	if err != nil {
		return err
	}
	return h.create(ctx, id, t)
}

// CheckTemplate refuses a template from which no home can be made, as Create does. An agent names templates by their
// ids alone: a path would let it read what its container cannot.
func (h *Homes) CheckTemplate(id string) error {
	if filepath.IsAbs(id) || isURL(id) {
		return &state.Error{Code: codeTemplateInvalid, Param: "template",
			Message: "a template is named by its id", Hint: "give the id of a template, such as " + Default}
	}
	_, err := h.resolve(context.Background(), cmp.Or(id, Default)) // which fetches nothing
	return err
}

// create makes a home under a temporary name and renames it when it is complete.
func (h *Homes) create(ctx context.Context, id string, t *template) (err error) {
	if err := os.MkdirAll(h.opts.Home.AgentsDir(), 0o700); err != nil {
		return unusable(id, err)
	}
	made, err := os.MkdirTemp(h.opts.Home.AgentsDir(), newPrefix)
	if err != nil {
		return unusable(id, err)
	}
	defer func() {
		if err == nil {
			return
		}
		if left := os.RemoveAll(made); left != nil {
			h.opts.Log.Warn("an unfinished home was not removed", "err", left)
		}
	}()
	if err := h.fill(ctx, made, t); err != nil {
		if _, told := errors.AsType[*state.Error](err); told || ctx.Err() != nil {
			return err
		}
		return unusable(id, err)
	}
	dir := h.opts.Home.AgentDir(id)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return unusable(id, err)
	}
	err = folder.RenameNew(unix.AT_FDCWD, made, unix.AT_FDCWD, dir)
	if errors.Is(err, fs.ErrExist) {
		return exists(id)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return unusable(id, err)
	}
	return nil
}

// fill makes a home in a directory that is not published yet.
func (h *Homes) fill(ctx context.Context, dir string, t *template) error {
	if err := errors.Join(os.Chmod(dir, 0o700), h.complete(dir, t)); err != nil {
		return err
	}
	if len(t.refs) == 0 {
		return nil
	}
	refs := slices.Clone(t.refs)
	for i, ref := range refs {
		if isURL(ref) {
			fetched, remove, err := h.fetch(ctx, fmt.Sprintf("skill_refs[%d]", i), ref)
			if err != nil {
				return err
			}
			defer remove()
			refs[i] = fetched
		}
	}
	if _, err := skills.Stage(ctx, refs, filepath.Join(dir, skillsDir)); err != nil {
		if problem, ok := errors.AsType[*skills.InvalidSkill](err); ok {
			return &state.Error{Code: codeTemplateSkill, Param: "skill_refs",
				Message: "a skill of the template can't be used: " + visible.OneLine(problem.Error(), 400), Hint: problem.Hint}
		}
		return fmt.Errorf("install the template's skills: %w", err)
	}
	return nil
}

// folders are those of every home.
var folders = []string{"memory", "notes", "work", skillsDir, ".holon", ".holon/state"}

// complete makes the missing files of the home dir, as far as it can. Existing entries
// of any kind stay unchanged.
func (h *Homes) complete(dir string, t *template) error {
	root, err := roots.Open(dir)
	if err != nil {
		return fmt.Errorf("open the agent's home: %w", err)
	}
	defer root.Close()
	var errs []error
	for _, folder := range folders {
		errs = append(errs, addFolder(root, folder))
	}
	_, selfErr := add(root, "memory/self.md", []byte(selfMemory))
	var operatorErr error
	if t.selector != Child {
		_, operatorErr = add(root, "memory/operator.md", []byte(operatorMemory))
	}
	added, agentsErr := add(root, agentsFile, t.instructions())
	errs = append(errs, selfErr, operatorErr, agentsErr)
	if added {
		provenance, err := json.MarshalIndent(t.provenance(h.opts.Now()), "", "  ")
		if err == nil {
			_, err = add(root, provenanceFile, append(provenance, '\n'))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// addFolder makes a folder unless something has the name.
func addFolder(root *os.Root, name string) error {
	mode := fs.FileMode(0o755)
	if strings.HasPrefix(name, ".holon") {
		mode = 0o700
	}
	err := root.Mkdir(name, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(root.Chmod(name, mode), give(root, name)) // the umask must not count
	}
	if err != nil {
		return fmt.Errorf("make the folder %s of the agent's home: %w", name, err)
	}
	return nil
}

// add makes a file with all of its content unless something has the name, and
// reports whether it did.
func add(root *os.Root, name string, content []byte) (added bool, err error) {
	if _, err := root.Lstat(name); err == nil {
		return false, nil
	}
	temp := filepath.Join(filepath.Dir(name), durable.TempPrefix+filepath.Base(name))
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crash
		return false, fmt.Errorf("make %s of the agent's home: %w", name, err)
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false, fmt.Errorf("make %s of the agent's home: %w", name, err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = give(root, temp)
	}
	if err == nil {
		err = root.Link(temp, name) // which replaces nothing
	}
	err = errors.Join(err, root.Remove(temp))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("make %s of the agent's home: %w", name, err)
	}
	return true, nil
}

// give gives a new file to whom the home belongs: its container may run as
// another user than the host.
func give(root *os.Root, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || strings.HasPrefix(name, ".holon") { // which is the host's own
		return nil
	}
	return root.Lchown(name, int(st.Uid), int(st.Gid))
}

// Digest is a digest of the files of an agent's home. The agent's memory and the host's
// own files do not count.
func (h *Homes) Digest(ctx context.Context, id string) (string, error) {
	return workspace.Digest(ctx, h.opts.Home.AgentDir(id), ".holon", "memory")
}

// EnsureDefault makes the home of the default agent where there is none, and what
// is missing of one that is there: never over anything. It also seeds the built-in
// templates and removes what a crash left of homes in the making, so it is called
// when the runtime starts.
func (h *Homes) EnsureDefault(ctx context.Context, id string) error {
	h.sweep()
	// templates are there for people; agents are made of the built-in ones all the same
	if err := h.Seed(ctx); err != nil {
		h.opts.Log.Warn("the built-in templates are not up to date", "dir", h.opts.Templates, "err", err)
	}
	if err := state.CheckAgentID(id); err != nil {
		return err
	}
	t, err := h.resolve(ctx, Default)
	if err != nil { // somebody broke their copy; a runtime starts all the same
		h.opts.Log.Warn("the template of the default agent can't be used; it gets the built-in one", "err", err)
		text, _ := builtinText(Default)
		t = &template{selector: Default, kind: kindBuiltin, agents: text}
	}
	if err := h.create(ctx, id, t); !state.IsCode(err, ledger.CodeExists) {
		return err
	}
	// The agent may have made it impossible, and must not keep the runtime from
	// starting.
	if err := h.complete(h.opts.Home.AgentDir(id), t); err != nil {
		h.opts.Log.Warn("the home of the default agent is incomplete", "agent", id, "err", err)
	}
	return nil
}

// sweep removes homes that were not finished.
func (h *Homes) sweep() {
	left, err := filepath.Glob(filepath.Join(h.opts.Home.AgentsDir(), newPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		h.opts.Log.Warn("what is left of an unfinished home was not removed", "err", err)
	}
}

// Loaded says which instructions an agent is given from its home. It tells of the
// file and never what it says.
func (h *Homes) Loaded(id string) []view.AgentsMD {
	if state.CheckAgentID(id) != nil {
		return nil
	}
	root, err := roots.Open(h.opts.Home.AgentDir(id))
	if err != nil {
		return nil
	}
	defer root.Close()
	if info, err := root.Stat(agentsFile); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	return []view.AgentsMD{{Scope: "agent", Kind: "agents_md",
		Path: filepath.Join(h.opts.Home.AgentDir(id), agentsFile)}}
}

func exists(id string) error {
	return &state.Error{Code: ledger.CodeExists, Param: "agent_id",
		Message: fmt.Sprintf("the agent %s has a home already", id),
		Hint:    "choose another id, or use the agent that is there"}
}

func unusable(id string, err error) error {
	return &state.Error{Code: view.CodeHomeUnusable, Param: "agent_id",
		Message: fmt.Sprintf("the home of the agent %s can't be made", id),
		Hint:    "look at the disk and at the permissions of the directory", Err: err}
}
