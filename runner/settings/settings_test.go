package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"holon/test/expect"

	"github.com/google/go-cmp/cmp"

	"holon/runner/settings"
	"holon/state"
)

// write puts content into a file of a new directory and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// load reads a person's file, a project's and an environment; "" is none.
func load(t *testing.T, user, project string, environ ...string) *settings.Loaded {
	t.Helper()
	src := settings.Sources{Environ: environ}
	if user != "" {
		src.File = write(t, settings.UserFile, user)
	}
	if project != "" {
		src.Project = strings.TrimSuffix(write(t, settings.ProjectFile, project), "/"+settings.ProjectFile)
	}
	return settings.Load(src)
}

func TestPrecedence(t *testing.T) {
	user := `{"model": {"default": "openai/a", "fallbacks": ["openai/b"]}, "timeout": "10m", "max_rounds": 1, ` +
		`"memory": "1g", "include_dirty": false}`
	l := load(t, user, "timeout: 9m\nmax_rounds: 2\nimage: c\n", "HOLON_MAX_ROUNDS=3", "HOLON_MEMORY=",
		"HOLON_SKILLS=a, b")
	expect.NoError(t, l.Override("cpus", "--cpus", "1.5"))
	expect.NoError(t, l.Err())
	got := []any{l.Model, l.Fallbacks, l.Timeout, l.MaxRounds, l.Memory, l.CPUs, l.IncludeDirty, l.Skills, l.Image}
	want := []any{"openai/a", []string{"openai/b"}, 9 * time.Minute, 3, settings.Size("1g"), 1.5, false,
		[]string{"a", "b"}, "c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	for key, want := range map[string]settings.Layer{
		"image": settings.LayerProject, "model.fallbacks": settings.LayerUser, "timeout": settings.LayerProject,
		"max_rounds": settings.LayerEnv,
		"memory":     settings.LayerUser, "cpus": settings.LayerFlag, "engine": settings.LayerDefault,
	} {
		entries, err := l.Get(key)
		if err != nil || len(entries) != 1 || entries[0].Origin.Layer != want {
			t.Errorf("%s: %v, %v", key, entries, err)
		}
	}
	hidden := make(map[string]string)
	for _, e := range l.Hidden() {
		hidden[e.Key+" "+string(e.Origin.Layer)] = settings.Text(e.Value)
	}
	if diff := cmp.Diff(map[string]string{"timeout user": "10m", "max_rounds user": "1", "max_rounds project": "2"},
		hidden); diff != "" {
		t.Errorf("hidden (-want +got):\n%s", diff)
	}
}

func TestProviders(t *testing.T) {
	user := `{"providers": {
	  "acme": {"base_url": "https://llm.acme.example/v1", "omit": ["stream_options"], "stream": false, ` +
		`"idle_timeout": "90s", "images": true,
	           "credential": {"source": "command", "command": ["pass", "show", "acme"]}},
	  "my.lab": {"contract": "responses", "base_url": "unix:///run/lab.sock:/v1"},
	  "openai": {"credential": {"env": "WORK_KEY"}}},
	 "models": {"catalog": {"acme/large-2.5": {"context_window": 32000, "price": {"input": 2.5, ` +
		`"output": "0.000001"}}}}}`
	l := load(t, user, "", "ACME_TIMEOUT=5m", "OLLAMA_BASE_URL=http://10.0.0.1:1/v1", "NEW_BASE_URL=http://10.0.0.2/v1",
		"HOLON_MODEL=new/m")
	expect.NoError(t, l.Err())
	acme, known := l.Provider("acme")
	want := settings.Provider{
		Name: "acme", Contract: "openai_chat_completions", BaseURL: "https://llm.acme.example/v1", KeyOptional: true,
		Images: true, Omit: []string{"stream_options"},
		IdleTimeout: 90 * time.Second, Timeout: 5 * time.Minute,
		Credential: settings.Credential{Source: "command", Command: []string{"pass", "show", "acme"}},
	}
	if diff := cmp.Diff(want, acme); diff != "" || !known {
		t.Errorf("acme, known %t (-want +got):\n%s", known, diff)
	}
	for name, want := range map[string]string{
		"my.lab": "responses unix:///run/lab.sock:/v1", "ollama": "openai_chat_completions http://10.0.0.1:1/v1",
		"new":       "openai_chat_completions http://10.0.0.2/v1",
		"openai":    "openai_responses https://api.openai.com/v1",
		"anthropic": "anthropic_messages https://api.anthropic.com", "nowhere": "openai_chat_completions ",
	} {
		p, known := l.Provider(name)
		if got := string(p.Contract) + " " + p.BaseURL; got != want || known != (name != "nowhere") {
			t.Errorf("%s: %s, known %t", name, got, known)
		}
	}
	facts := l.Catalog["acme/large-2.5"]
	if facts == nil || facts.ContextWindow != 32000 || *facts.Input != 2_500_000 || *facts.Output != 1 ||
		facts.CacheWrite != nil {
		t.Errorf("the facts are %+v", facts)
	}
	// Names may hold dots and slashes.
	for key, want := range map[string]string{
		"providers.my.lab.contract": "responses", "models.catalog.acme/large-2.5.price.output": "0.000001",
		"providers.openai.credential.env": "WORK_KEY", "providers.groq.base_url": "https://api.groq.com/openai/v1",
	} {
		if entries, err := l.Get(key); err != nil || len(entries) != 1 || settings.Text(entries[0].Value) != want {
			t.Errorf("%s: %v, %v", key, entries, err)
		}
	}
	if entries, err := l.Get("providers.acme.credential"); err != nil || len(entries) != 2 {
		t.Errorf("a group: %v, %v", entries, err)
	}
	if _, set := l.Providers["groq"]; set {
		t.Error("a provider that was looked at is set")
	}
}

func TestWrong(t *testing.T) {
	for _, tc := range []struct{ user, project, environ, want string }{
		{user: `{"modle": {}}`, want: "config.json: line 1: modle is not a setting; write model"},
		{user: "{\n \"model\": {\"defualt\": \"a/b\"}}",
			want: "line 2: model.defualt is not a setting; write model.default"},
		{user: `{"max_requests": 1}`, want: "max_requests is not a setting; write budgets.run.max_requests"},
		{user: `{"providers": {"acme": {"base_ulr": "x"}}}`,
			want: "providers.acme.base_ulr is not a setting; write providers.acme.base_url"},
		{user: `{"zzzzzzzzzzzzzzzzzzzzzzzzzzzzz": 1}`, want: "is not a setting; see holon config schema"},
		{user: `{"providers": {"Acme": {"base_url": "http://x"}}}`,
			want: "providers.Acme: is not the name of a provider or model"},
		{user: `{"providers": {"scripted": {"base_url": "http://x"}}}`, want: "is not the name of a provider"},
		{user: `{"models": {"catalog": {"gpt": {"context_window": 1}}}}`,
			want: "is not the name of a provider or model"},
		{user: `{"timeout": "1ms"}`, want: "timeout: 1ms is less than a second; write for example 30m"},
		{user: `{"timeout": 60}`, want: `timeout: "60" cannot be read; write a duration`},
		{user: `{"timeout": null}`, want: "timeout: has no value"},
		{user: `{"cpus": -1}`, want: "cpus: -1 is out of range"},
		{user: `{"cpus": "NaN"}`, want: "cpus: NaN is out of range"},
		{user: `{"engine": "podman"}`, want: `engine: "podman" is unknown; choose auto, docker, local or kubernetes`},
		{user: `{"allow_alternates": ["../x"]}`, want: `allow_alternates: "../x" is not an absolute path`},
		{user: `{"skills": "a"}`, want: `skills: "a" cannot be read; write a list of texts`},
		{user: `{"model": 5}`, want: `model: "5" cannot be read; write an object`},
		{user: `{"budgets": {"run": {"max_cost": 1.1234567}}}`, want: "budgets.run.max_cost:"},
		{user: `{"budgets": {"run": {"max_cost": 1e3}}}`, want: "budgets.run.max_cost:"},
		{user: `{"budgets": {"run": {"max_tokens": 0}}}`, want: "is not positive"},
		{user: `{"providers": {"a": {"base_url": "https://user:sesame@x/"}}}`,
			want: "holds a user name or password; give the key as a credential"},
		{user: `{"providers": {"a": {"base_url": "https://x/?key=sesame"}}}`, want: "has a query"},
		{user: `{"providers": {"a": {"credential": {"env": "sk-sesame"}}}}`,
			want: "is not the name of a variable; write the variable's name, not the key"},
		{user: `{"providers": {"a": {"credential": {"command": []}}}}`, want: "is not a command"},
		{user: `{"providers": {"a": {"contract": "soap"}}}`,
			want: `"soap" is unknown; choose openai_chat_completions, responses`},
		{user: `{"image": "a", "image": "b"}`, want: `duplicate key "image"`},
		{user: `{"image": "a"} x`, want: "line 1:"},
		{user: "{\n// a comment\n}", want: "line 2: is not JSON: invalid character '/' looking for"},
		{user: `{"image": "a"`, want: "is not JSON: unexpected end of JSON input"},
		{user: `{"image":"a",}`, want: `line 1: is not JSON: invalid character '}' looking for`},
		{user: "{\"image\":\"a\nb\"}", want: "is not JSON: invalid character '\\n' in string literal"},
		{user: "{\"timeout\"\n5}", want: `line 2: is not JSON: invalid character '5' after object key`},
		{project: "timeout: {bad", want: "config.yaml: line 1: is not YAML there, or in the line before; see to"},
		{user: `{"image":"a"}x`, want: "after top-level value"},
		{user: `null`, want: "has no value; write an object with settings"},
		{user: `{"max_rounds": 1e400}`, want: "max_rounds"},
		{user: `[]`, want: "cannot be a list; write an object with settings"},
		{user: strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20), want: "nested deeper"},
		{user: `{"image": "` + strings.Repeat("x", 300<<10) + `"}`, want: "it has more than 262144 bytes"},
		{user: `{"runtime": {"default_tool_output_tokens": 70000}}`,
			want: "is more than runtime.max_tool_output_tokens, 64000; set both"},

		{project: "engine: local", want: `.holon/config.yaml: line 1: engine: "local" confines less than your settings`},
		{project: "network: bridge", want: "confines less"},
		{project: "model: openai/x", want: "model.default: is not for a repository to decide; set it with holon " +
			"config set, or as a variable"},
		{project: "model: scripted/turn.yaml", want: "model.default: is not for a repository to decide"},
		{project: "model:\n  fallbacks: [openai/x]",
			want: "line 2: model.fallbacks: is not for a repository to decide"},
		{project: "providers: {openai: {base_url: http://evil.example}}",
			want: "providers.openai.base_url: is not for a repository to decide"},
		{project: "providers: {x: {credential: {command: [sh]}}}", want: "is not for a repository to decide"},
		{project: "budgets: {run: {max_cost: -1}}", want: "budgets.run.max_cost: "},
		{project: "budgets.run.max_tokens: 5", want: "line 1: budgets.run.max_tokens is not a setting; nest it: " +
			"budgets: {run: {max_tokens: …}}"},
		{project: "budgets: {run: {\n  max_tokens: unlimited}}",
			want: `line 2: budgets.run.max_tokens: "unlimited" cannot be read; write a whole number`},
		{project: "models: {catalog: {openai/x: {context_window: 1}}}", want: "is not for a repository to decide"},
		{project: "runtime: {max_output_tokens: 1}", want: "is not for a repository to decide"},
		{project: "allow_alternates: [/]", want: "allow_alternates: is not for a repository to decide"},
		{project: "skills: [../x]", want: "is not there; name it with --skill"},
		{project: "a: &x [1]\nimage: *x", want: "aliases are not allowed"},
		{project: "image: a\n---\nimage: b", want: "second document"},
		{project: "<<: {image: a}", want: "is not a setting"},

		{environ: "HOLON_ENGINE=podman", want: `HOLON_ENGINE: "podman" is unknown`},
		{environ: "HOLON_MODEL_FALLBACKS=openai", want: `HOLON_MODEL_FALLBACKS: "openai" is not a model reference`},
		{environ: "HOLON_SKILLS=[1", want: "HOLON_SKILLS: is not a JSON list"},
		{environ: "GROQ_BASE_URL=api.groq.com", want: "GROQ_BASE_URL: is not an http, https or unix URL"},
		{environ: "GROQ_TIMEOUT=5", want: `GROQ_TIMEOUT: "5" cannot be read; write a duration`},
	} {
		err := load(t, tc.user, tc.project, tc.environ).Err()
		e, ok := errors.AsType[*state.Error](err)
		if !ok || e.Hint == "" || e.Param == "" {
			t.Errorf("%+v: %v", tc, err)
			continue
		}
		if text := e.Param + ": " + e.Message + "; " + e.Hint; !strings.Contains(text, tc.want) ||
			strings.Contains(text, "sesame") {
			t.Errorf("got  %s\nwant %s", text, tc.want)
		}
	}
}

// Of JSON all is read that a person or a program may write.
func TestJSONStrings(t *testing.T) {
	for text, want := range map[string]string{
		`"a\/b"`: "a/b", `"\u0041\u00e9"`: "Aé", `"\ud83d\ude00"`: "😀", `"it's \"#: {[,&*!|>%@"`: `it's "#: {[,&*!|>%@`,
		`"null"`: "null", `12`: "12", `1e3`: "1e3", `-0.10`: "-0.10", `9007199254740993`: "9007199254740993",
		`" \t\n"`: " \t\n",
	} {
		l := load(t, "{\n\t\"image\":\t"+text+"\n}\n", "")
		if err := l.Err(); err != nil || l.Image != want {
			t.Errorf("%s: image %q, %v, want %q", text, l.Image, err, want)
		}
	}
}

// A person may decide what a repository may not, without an error.
func TestPersonDecides(t *testing.T) {
	const project = "engine: local\nmodel: deepseek/x\n"
	l := load(t, "", project, "HOLON_ENGINE=docker")
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "model.default") {
		t.Errorf("%v", err)
	}
	expect.NoError(t, l.Override("model.default", "--model", "groq/y"))
	if err := l.Err(); err != nil || l.Engine != "docker" || l.Model != "groq/y" {
		t.Errorf("%v, %s, %s", err, l.Engine, l.Model)
	}
	l = load(t, `{"model": "openai/own", "engine": "auto"}`, project)
	if err := l.Err(); err != nil || l.Engine != "auto" || l.Model != "openai/own" {
		t.Errorf("the person's own file does not decide: %v, %s, %s", err, l.Engine, l.Model)
	}
	// A model of a flag may name a provider that only variables make one.
	l = load(t, "", "", "NEW_BASE_URL=http://10.0.0.2/v1", "OTHER_BASE_URL=nonsense")
	expect.NoError(t, l.Override("model.default", "--model", "new/y"))
	if p, known := l.Provider("new"); l.Err() != nil || !known || p.BaseURL != "http://10.0.0.2/v1" {
		t.Errorf("the provider is %+v, known: %v (%v)", p, known, l.Err())
	}
	if l.Consider("other/x"); l.Err() == nil {
		t.Error("what a variable says of a provider is not read")
	}
}

func TestFileOfOthers(t *testing.T) {
	path := write(t, settings.UserFile, `{"image": "a"}`)
	expect.NoError(t, os.Chmod(path, 0o620))
	e, ok := errors.AsType[*state.Error](settings.Load(settings.Sources{File: path}).Err())
	if !ok || e.Hint != "chmod 600 "+path {
		t.Errorf("%v", e)
	}
	link := filepath.Join(t.TempDir(), "link")
	expect.NoError(t, os.Symlink(path, link))
	if err := settings.Load(settings.Sources{File: link}).Err(); err == nil ||
		!strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("%v", err)
	}
	if err := settings.Load(settings.Sources{File: t.TempDir()}).Err(); err == nil {
		t.Error("a directory is read")
	}
	if l := settings.Load(settings.Sources{File: filepath.Join(t.TempDir(), "none")}); l.Err() != nil ||
		!reflect.DeepEqual(l.Settings, settings.Default()) {
		t.Errorf("%+v", l.Settings)
	}
}

// Loading any file ends, and every value that is accepted can be written.
func FuzzLoad(f *testing.F) {
	f.Add(`{"model": {"default": "a/b"}, "providers": {"x": {"omit": ["a"]}}}`, "model: scripted/demo\nskills: [a]\n")
	f.Add(`{"a": [1, {"b": null}]}`, "a: {b: [1, 2, {c: d}]}")
	f.Add("{\"image\": \"\xff\"}", "- x")
	f.Fuzz(func(t *testing.T, user, project string) {
		l := load(t, user, project)
		for _, p := range l.AllProblems() {
			if p.What == "" || p.Remedy == "" || p.Origin.Name == "" {
				t.Errorf("%+v, want what is wrong, its source and a remedy", p)
			}
		}
		for _, e := range l.All() {
			if e.Origin.Layer != settings.LayerUser {
				continue
			}
			if err := settings.Set(filepath.Join(t.TempDir(), settings.UserFile), e.Key,
				settings.Text(e.Value)); err != nil {
				t.Errorf("%s = %q was read and can't be set: %v", e.Key, settings.Text(e.Value), err)
			}
		}
	})
}
