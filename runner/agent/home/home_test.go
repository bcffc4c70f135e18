package home_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holon/runner/agent/home"
	"holon/runner/agent/view"
	"holon/runner/workspace/fetch"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/gittest"
)

// rig is a state home and a user's templates.
type rig struct {
	t         *testing.T
	state     state.Home
	templates string
	homes     *home.Homes
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	h, err := state.MakeHome(filepath.Join(dir, "holon"), "")
	expect.NoError(t, err)
	r := &rig{t: t, state: h, templates: filepath.Join(dir, "user", ".agents", "templates")}
	r.homes = home.New(home.Options{Home: h, Templates: r.templates, Now: func() time.Time {
		return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	}})
	return r
}

// template makes a template of files by name.
func (r *rig) template(id string, files map[string]string) string {
	r.t.Helper()
	dir := filepath.Join(r.templates, id)
	for name, text := range files {
		r.write(filepath.Join(dir, name), text)
	}
	return dir
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	expect.NoError(r.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

func (r *rig) read(path string) string {
	r.t.Helper()
	data, err := os.ReadFile(path)
	expect.NoError(r.t, err)
	return string(data)
}

func (r *rig) in(id, name string) string { return filepath.Join(r.state.AgentDir(id), name) }

// agents lists what lies among the homes.
func (r *rig) agents() (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(r.state.AgentsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCreate(t *testing.T) {
	r := newRig(t)
	skill := filepath.Join(t.TempDir(), "greet")
	r.write(filepath.Join(skill, "SKILL.md"), "---\nname: greet\ndescription: Say hello.\n---\nHello.\n")
	dir := r.template("mine", map[string]string{"AGENTS.md": "# Mine\n\nBe brief.\n\n",
		"skills.json": `{"skill_refs": ["` + skill + `/"]}`, "other.txt": "not part of it"})
	for id, selector := range map[string]string{"one": "mine", "two": dir} {
		expect.NoError(t, r.homes.Create(t.Context(), id, selector))
		r.checkHome(t, id)
		r.checkProvenance(t, id, selector, dir)
		want := []view.AgentsMD{{Scope: "agent", Kind: "agents_md", Path: r.in(id, "AGENTS.md")}}
		if got := r.homes.Loaded(id); !slices.Equal(got, want) {
			t.Errorf("loaded %+v, want %+v", got, want)
		}
	}
	r.write(r.in("one", "AGENTS.md"), "changed")
	if err := r.homes.Create(t.Context(), "one", "mine"); !state.IsCode(err, ledger.CodeExists) {
		t.Errorf("creating a home that exists: %v, want %s", err, ledger.CodeExists)
	}
	expect.Equal(t, "AGENTS.md of a home that exists", r.read(r.in("one", "AGENTS.md")), "changed")
	if got := r.agents(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("among the homes are %q", got)
	}
}

// checkHome looks at the files of a home that was made from TestCreate's template.
func (r *rig) checkHome(t *testing.T, id string) {
	t.Helper()
	text := r.read(r.in(id, "AGENTS.md"))
	if !strings.HasPrefix(text, "# Mine\n\nBe brief.\n\n<!-- holon: agent home -->\n") {
		t.Errorf("AGENTS.md is\n%s", text)
	}
	for name, isDir := range map[string]bool{"memory/self.md": false, "memory/operator.md": false, "notes": true,
		"work": true, "skills/greet/SKILL.md": false, ".holon/state": true} {
		if info, err := os.Lstat(r.in(id, name)); err != nil || info.IsDir() != isDir {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(r.in(id, "other.txt")); err == nil {
		t.Error("the home has a file that is not part of a template")
	}
	if info, err := os.Lstat(r.state.AgentDir(id)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the home is %v, %v", info.Mode(), err)
	}
}

// checkProvenance looks at what the home says of its template.
func (r *rig) checkProvenance(t *testing.T, id, selector, dir string) {
	t.Helper()
	var p home.Provenance
	expect.NoError(t, json.Unmarshal([]byte(r.read(r.in(id, ".holon/state/template.json"))), &p))
	if p.Selector != selector || p.Path != dir {
		t.Errorf("the provenance names %q at %q, want %q at %q", p.Selector, p.Path, selector, dir)
	}
	if !strings.HasPrefix(p.Digest, "sha256:") {
		t.Errorf("the digest is %q", p.Digest)
	}
	if len(p.Skills) != 1 || p.AppliedAt.IsZero() {
		t.Errorf("the provenance is %+v, want one skill and a time", p)
	}
}

// The built-in templates need no file of the user's.
func TestBuiltin(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"holon-default", "holon-developer", ""} {
		name := "a" + id
		expect.NoError(t, r.homes.Create(t.Context(), name, id))
		text := r.read(r.in(name, "AGENTS.md"))
		if len(text) < 1000 || len(text) > 8<<10 || strings.Count(text, "<!-- holon: agent home -->") != 1 ||
			!strings.Contains(text, "memory/operator.md") {
			t.Errorf("AGENTS.md is %.300q …", text)
		}
	}
}

// Without a home directory only the built-in templates exist, and nothing is written to the working directory.
func TestNoTemplates(t *testing.T) {
	r := newRig(t)
	t.Chdir(t.TempDir())
	homes := home.New(home.Options{Home: r.state, Templates: ".agents/templates"})
	expect.NoError(t, homes.EnsureDefault(t.Context(), "main"))
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("it wrote %v, %v", entries, err)
	}
	if err := homes.Create(t.Context(), "two", "mine"); !state.IsCode(err, "template_not_found") {
		t.Error(err)
	}
}

// Each fault of a template has an error that names it, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	good := map[string]string{"AGENTS.md": "x"}
	secret := filepath.Join(t.TempDir(), "secret")
	r.write(secret, "a key")
	link := func(id, name, target string) {
		dir := r.template(id, map[string]string{"README": "x"})
		expect.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	link("link", "AGENTS.md", secret)
	link("dangling", "AGENTS.md", "nowhere")
	r.template("dangling-skills", good)
	link("dangling-skills", "skills.json", "nowhere")
	link("dotdot", "AGENTS.md", "../good/../../../../secret")
	if err := syscall.Mkfifo(filepath.Join(r.template("fifo", map[string]string{"README": "x"}), "AGENTS.md"),
		0o600); err != nil {
		t.Fatal(err)
	}
	r.template("folder", map[string]string{"AGENTS.md/x": "x"})
	r.template("none", map[string]string{"README": "x"})
	r.template("blank", map[string]string{"AGENTS.md": " \n"})
	r.template("binary", map[string]string{"AGENTS.md": "\xff\xfe"})
	r.template("large", map[string]string{"AGENTS.md": strings.Repeat("x", 256<<10+1)})
	for id, manifest := range map[string]string{
		"s-syntax": `{"skill_refs": [}`, "s-key": `{"skills": []}`, "s-type": `{"skill_refs": "x"}`, "s-two": `{} {}`,
		"s-large":   `{"skill_refs": ["` + strings.Repeat("x", 64<<10) + `"]}`,
		"s-builtin": `{"skill_refs": ["builtin:ghx"]}`,
		"s-remote":  `{"skill_refs": ["https://github.com/a/b/tree/main/c"]}`,
		"s-missing": `{"skill_refs": ["/nonexistent/skill"]}`,
		"s-many":    `{"skill_refs": [` + strings.Repeat(`"/x",`, 64) + `"/x"]}`,
	} {
		r.template(id, map[string]string{"AGENTS.md": "x", "skills.json": manifest})
	}
	evil := filepath.Join(t.TempDir(), "evil")
	r.write(filepath.Join(evil, "SKILL.md"), "---\nname: evil\ndescription: x\n---\n")
	expect.NoError(t, os.Symlink(secret, filepath.Join(evil, "key")))
	r.template("s-evil", map[string]string{"AGENTS.md": "x", "skills.json": `{"skill_refs": ["` + evil + `"]}`})
	for selector, code := range map[string]state.Code{
		"https://github.com/holon-run/templates/tree/main/x": "template_fetch_failed",
		"github.com/a/b": "template_invalid", "git@github.com:a/b": "template_fetch_failed",
		"unknown": "template_not_found", "/nonexistent/template": "template_not_found",
		secret: "template_invalid",
		"../x": "template_invalid", "a/b": "template_invalid", ".hidden": "template_invalid",
		"Upper": "template_invalid", strings.Repeat("x", 65): "template_invalid",
		"link": "template_invalid", "dangling": "template_invalid",
		"dangling-skills": "template_invalid", "dotdot": "template_invalid",
		"fifo":   "template_invalid",
		"folder": "template_invalid", "none": "template_invalid", "blank": "template_invalid",
		"binary": "template_invalid", "large": "template_invalid",
		"s-syntax": "template_invalid", "s-key": "template_invalid", "s-type": "template_invalid",
		"s-two": "template_invalid", "s-large": "template_invalid", "s-many": "template_invalid",
		"s-builtin": "template_skill_unavailable",
		"s-remote":  "template_fetch_failed", "s-missing": "template_skill_unavailable",
		"s-evil": "template_skill_unavailable",
	} {
		err := r.homes.Create(t.Context(), "agent", selector)
		e, ok := errors.AsType[*state.Error](err)
		if !ok || e.Code != code || e.Param == "" || e.Hint == "" || e.Err != nil && code != "template_fetch_failed" {
			t.Errorf("%.60s: the error is %v", selector, err)
		}
		if got := r.agents(); len(got) != 0 {
			t.Fatalf("%.60s: it left %q", selector, got)
		}
	}
	if err := r.homes.Create(t.Context(), "../agent", "x"); err == nil {
		t.Error("an id that is a path was taken")
	}
}

// A template and its skills can be directories of repositories. An agent cannot have one fetched, and what cannot be
// fetched leaves nothing.
func TestFetchedTemplate(t *testing.T) {
	r := newRig(t)
	fetched := home.New(home.Options{Home: r.state, Fetch: func(ctx context.Context, url, dir string) error {
		source, err := fetch.Parse(url, "", "")
		if err == nil {
			_, err = source.Fetch(ctx, fetch.Options{Dir: dir, Files: 10, Bytes: 1 << 20, Pack: 1 << 20})
		}
		return err
	}})
	forms := filepath.Join(t.TempDir(), "forms")
	expect.NoError(t, os.Rename(gittest.NewRepo(t, map[string]string{
		"SKILL.md": "---\nname: forms\ndescription: Fill in forms.\n---\n"}), forms))
	url := "file://" + gittest.NewRepo(t, map[string]string{"AGENTS.md": "Be a clerk.\n",
		"skills.json": `{"skill_refs": ["file://` + forms + `"]}`})
	expect.NoError(t, fetched.Create(t.Context(), "clerk", url))
	expect.Contains(t, "AGENTS.md", r.read(r.in("clerk", "AGENTS.md")), "Be a clerk.")
	expect.Contains(t, "the skill", r.read(r.in("clerk", "skills/forms/SKILL.md")), "Fill in forms.")
	expect.Contains(t, "provenance", r.read(r.in("clerk", ".holon/state/template.json")), `"source_kind": "remote"`)

	own := "file://" + gittest.NewRepo(t, map[string]string{"AGENTS.md": "x",
		"skills.json": `{"skill_refs": ["` + forms + `"]}`})
	if err := fetched.Create(t.Context(), "thief", own); !state.IsCode(err, "template_skill_unavailable") {
		t.Errorf("a fetched template has a skill of this machine: %v", err)
	}
	if err := fetched.CheckTemplate(url); !state.IsCode(err, "template_invalid") {
		t.Errorf("an agent names a URL: %v", err)
	}
	r.template("lost", map[string]string{"AGENTS.md": "x", "skills.json": `{"skill_refs": ["file:///nonexistent/x"]}`})
	local := home.New(home.Options{Home: r.state, Templates: r.templates,
		Fetch: func(context.Context, string, string) error { return errors.New("no such repository") }})
	if err := local.Create(t.Context(), "other", "lost"); !state.IsCode(err, "template_fetch_failed") {
		t.Errorf("a skill that is not there: %v", err)
	}
	expect.Equal(t, "agents", strings.Join(r.agents(), " "), "clerk")
	left, err := os.ReadDir(r.state.CacheDir())
	expect.NoError(t, err)
	expect.Equal(t, "left in the cache", len(left), 0)
}

func TestCreateAtOnce(t *testing.T) {
	r := newRig(t)
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() { errs[i] = r.homes.Create(t.Context(), "one", "") })
	}
	all.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if !state.IsCode(err, ledger.CodeExists) {
			t.Error(err)
		}
	}
	if got := r.agents(); made != 1 || len(got) != 1 {
		t.Errorf("%d were made, there are %q", made, got)
	}
}

// The default agent's home is made once, completed where something is missing,
// and never changed.
func TestEnsureDefault(t *testing.T) {
	r := newRig(t)
	ensure := func() {
		t.Helper()
		expect.NoError(t, r.homes.EnsureDefault(t.Context(), "main"))
	}
	r.write(filepath.Join(r.state.AgentsDir(), ".new-123", "half"), "x")
	ensure()
	if got := r.agents(); !slices.Equal(got, []string{"main"}) {
		t.Errorf("among the homes are %q", got)
	}
	original := r.read(r.in("main", "AGENTS.md"))
	r.write(r.in("main", "AGENTS.md"), "mine now")
	r.write(r.in("main", "memory/self.md"), "I remember")
	expect.NoError(t, errors.Join(os.RemoveAll(r.in("main", "notes")),
		os.Remove(r.in("main", "memory/operator.md"))))
	ensure()
	if r.read(r.in("main", "AGENTS.md")) != "mine now" || r.read(r.in("main", "memory/self.md")) != "I remember" ||
		r.read(r.in("main", "memory/operator.md")) == "" {
		t.Error("what the agent and its operator wrote was not kept")
	}
	if _, err := os.Stat(r.in("main", "notes")); err != nil {
		t.Error(err)
	}
	expect.NoError(t, os.Remove(r.in("main", "AGENTS.md")))
	ensure()
	if r.read(r.in("main", "AGENTS.md")) != original {
		t.Error("AGENTS.md was not made again")
	}
	// Somebody broke their copy of the template: the runtime starts all the same.
	expect.NoError(t, errors.Join(os.RemoveAll(r.state.AgentDir("main")),
		os.Remove(filepath.Join(r.templates, home.Default, "AGENTS.md"))))
	ensure()
	if r.read(r.in("main", "AGENTS.md")) != original {
		t.Error("AGENTS.md is not the built-in one")
	}
}

// A home whose agent did its worst is completed without a step outside of it.
func TestHostileHome(t *testing.T) {
	r := newRig(t)
	outside := filepath.Join(t.TempDir(), "outside")
	expect.NoError(t, errors.Join(os.MkdirAll(outside, 0o755), os.MkdirAll(r.state.AgentDir("main"), 0o700),
		os.Symlink(outside, r.in("main", "memory")),
		os.Symlink(filepath.Join(outside, "agents"), r.in("main", "AGENTS.md")),
		os.Symlink("..", r.in("main", "notes"))))
	r.write(r.in("main", "work"), "a file")
	if err := r.homes.EnsureDefault(t.Context(), "main"); err != nil {
		t.Errorf("the runtime would not start: %v", err)
	}
	if info, err := os.Lstat(r.in("main", "skills")); err != nil || !info.IsDir() {
		t.Errorf("what could be made was not: %v", err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
	if r.read(r.in("main", "work")) != "a file" || len(r.homes.Loaded("main")) != 0 {
		t.Error("what was there was changed, or an AGENTS.md that leads out is said to be loaded")
	}
	expect.NoError(t, errors.Join(os.Remove(r.in("main", "AGENTS.md")),
		syscall.Mkfifo(r.in("main", "AGENTS.md"), 0o600)))
	if got := r.homes.Loaded("main"); len(got) != 0 {
		t.Errorf("a pipe is said to be loaded: %v", got)
	}
}

// Built-in templates are seeded, refreshed where the user did not change them, and otherwise left alone.
func TestSeed(t *testing.T) {
	r := newRig(t)
	seed := func() {
		t.Helper()
		if err := r.homes.Seed(t.Context()); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(r.templates, ".new-*")); len(left) != 0 {
			t.Errorf("it left %q", left)
		}
	}
	file := filepath.Join(r.templates, home.Default, "AGENTS.md")
	managed := filepath.Join(r.templates, home.Default, ".holon.json")
	seed()
	current, note := r.read(file), r.read(managed)
	made := tree(t, r.templates)
	before, err := os.Stat(file)
	expect.NoError(t, err)
	seed()
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("a template that is up to date was replaced (%v)", err)
	}

	r.write(file, "an earlier version\n") // as an earlier holon would have left it
	r.write(managed, strings.Replace(note, note[strings.Index(note, "sha256:"):strings.Index(note, "sha256:")+71],
		home.DigestOf("an earlier version\n"), 1))
	seed()
	if r.read(file) != current || r.read(managed) != note {
		t.Error("it was not brought up to date")
	}
	for name, spoil := range map[string]func(){
		"changed": func() { r.write(file, "my own") },
		"more":    func() { r.write(filepath.Join(r.templates, home.Default, "skills.json"), `{"skill_refs":[]}`) },
		"no note": func() { _ = os.Remove(managed) },
		"a link": func() {
			_ = errors.Join(os.Rename(file, file+".x"), os.Symlink("AGENTS.md.x", file))
		},
		"a file": func() {
			_ = os.RemoveAll(filepath.Dir(file))
			r.write(filepath.Dir(file), "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			expect.NoError(t, os.RemoveAll(filepath.Join(r.templates, home.Default)))
			seed()
			if after := tree(t, r.templates); after != made {
				t.Fatalf("the templates are\n%s, want\n%s", after, made)
			}
			spoil()
			before := tree(t, r.templates)
			seed()
			if after := tree(t, r.templates); after != before {
				t.Errorf("it was changed from\n%s to\n%s", before, after)
			}
		})
	}
}

// tree says what lies in a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		b.WriteString(path + " " + d.Type().String())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(data)
		}
		b.WriteString("\n")
		return nil
	})
	expect.NoError(t, err)
	return b.String()
}

// Every manifest that is accepted names skills on this machine.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{`{"skill_refs": ["/a/../b"]}`, `{"skill_refs": null}`, `{}`, `[]`,
		`{"skill_refs": ["https://x/y"]}`, `{"skill_refs": [""]} x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		refs, err := home.ParseManifest(data)
		if err != nil {
			if _, ok := errors.AsType[*state.Error](err); !ok {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		for _, ref := range refs {
			url := strings.Contains(ref, "://") || strings.HasPrefix(ref, "git@")
			if !filepath.IsAbs(ref) && !url || filepath.IsAbs(ref) && filepath.Clean(ref) != ref {
				t.Errorf("%q names %q", data, ref)
			}
		}
	})
}
