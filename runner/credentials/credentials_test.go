package credentials_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/runner/credentials"
	"holon/runner/gateway"
	"holon/runner/settings"
	"holon/state"
	"holon/test/expect"
)

const sentinel = "sk-sentinel-0123456789abcdef"

// home returns a home that exists.
func home(t *testing.T) state.Home {
	t.Helper()
	h, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	return h
}

func set(t *testing.T, s credentials.Store, name, key string) {
	t.Helper()
	expect.NoError(t, s.Set(name, gateway.NewSecret(key), time.Now()))
}

func code(err error) state.Code {
	e, _ := errors.AsType[*state.Error](err)
	if e == nil {
		return ""
	}
	return e.Code
}

func TestStore(t *testing.T) {
	s := credentials.StoreIn(home(t))
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	if _, err := os.Stat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made a file: %v", err)
	}
	set(t, s, "openai", "first")
	set(t, s, "openai", sentinel)
	set(t, s, "my-lab.two", "k")
	info, err := os.Stat(s.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if key, err := s.Get("openai"); err != nil || key.Reveal() != sentinel {
		t.Errorf("%q, %v", key.Reveal(), err)
	}
	if _, err := s.Get("groq"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	list, err := s.List()
	expect.Equal(t, "err", err, nil)
	if len(list) != 2 {
		t.Fatalf("len(list) = %d (%+v), want 2", len(list), list)
	}
	expect.Equal(t, "list[0].Name", list[0].Name, "my-lab.two")
	if list[1].SetAt.IsZero() {
		t.Error("list[1].SetAt.IsZero() = true, want false")
	}
	if text := fmt.Sprintf("%v %+v %#v", list, list, list); strings.Contains(text, sentinel) {
		t.Errorf("a profile shows its key: %s", text)
	}
	expect.NoError(t, s.Remove("openai"))
	if err := s.Remove("openai"); code(err) != credentials.CodeUnknown {
		t.Errorf("%v", err)
	}
	for name, key := range map[string]string{"Open AI": "k", "": "k", "a": "", "b": "two words", "c": "line\nend",
		"d": "é", "e": strings.Repeat("k", 9<<10)} {
		if err := s.Set(name, gateway.NewSecret(key), time.Now()); code(err) != credentials.CodeInvalidKey ||
			strings.Contains(err.Error(), "two words") {
			t.Errorf("%q, %q: %v", name, key, err)
		}
	}
}

// Writers at the same time lose nothing of each other.
func TestWritersTakeTurns(t *testing.T) {
	s := credentials.StoreIn(home(t))
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() { set(t, s, fmt.Sprintf("p%d", i), sentinel) })
	}
	group.Wait()
	if list, err := s.List(); err != nil || len(list) != 12 {
		t.Errorf("%d profiles, %v", len(list), err)
	}
}

func TestStoreOfOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, path string)
		code  state.Code
		hint  string
	}{
		"readable by the group": {func(t *testing.T, path string) {
			chmod(t, path, 0o640)
		}, credentials.CodeExposed, "chmod 600 PATH"},
		"writable by all": {func(t *testing.T, path string) {
			chmod(t, path, 0o602)
		}, credentials.CodeExposed, "chmod 600 PATH"},
		"directory open to others": {func(t *testing.T, path string) {
			chmod(t, filepath.Dir(path), 0o755)
		}, credentials.CodeExposed, "chmod 700 DIR"},
		"a link": {func(t *testing.T, path string) {
			expect.NoError(t, errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path)))
		}, credentials.CodeUnusable, "make it a file of yours"},
		"a directory": {func(t *testing.T, path string) {
			expect.NoError(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700)))
		}, credentials.CodeUnusable, "make it a file of yours"},
		"no JSON": {func(t *testing.T, path string) {
			overwrite(t, path, `{"profiles": {"openai": {"api_key": "`+sentinel)
		}, credentials.CodeUnusable, "correct it"},
		"other JSON": {func(t *testing.T, path string) {
			overwrite(t, path, `{"openai": "`+sentinel+`"}`)
		}, credentials.CodeUnusable, "correct it"},
		"two objects": {func(t *testing.T, path string) {
			overwrite(t, path, `{} {}`)
		}, credentials.CodeUnusable, "correct it"},
		"too large": {func(t *testing.T, path string) {
			overwrite(t, path, strings.Repeat(" ", 2<<20))
		}, credentials.CodeUnusable, "make it"},
		"someone else's": {func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			expect.NoError(t, os.Chown(path, 1234, 1234))
		}, credentials.CodeExposed, "chown 0 PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			s := credentials.StoreIn(home(t))
			set(t, s, "openai", sentinel)
			tc.spoil(t, s.Path())
			hint := strings.NewReplacer("PATH", s.Path(), "DIR", filepath.Dir(s.Path())).Replace(tc.hint)
			_, readErr := s.Get("openai")
			writeErr := s.Set("groq", gateway.NewSecret(sentinel), time.Now())
			for _, err := range []error{readErr, writeErr} {
				e, ok := errors.AsType[*state.Error](err)
				if !ok {
					t.Fatalf("%v; want %s, %s", err, tc.code, hint)
				}
				expect.Equal(t, fmt.Sprintf("%v: e.Code", err), e.Code, tc.code)
				expect.Equal(t, fmt.Sprintf("%v: its hint", err),
					strings.HasPrefix(e.Hint, hint), true)
				if strings.Contains(e.Error(), "sentinel") {
					t.Errorf(`%v: e.Error() = %q, want it without "sentinel"`, err, e.Error())
				}
			}
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	expect.NoError(t, os.Chmod(path, mode))
}

func overwrite(t *testing.T, path, content string) {
	t.Helper()
	expect.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func provider(name string, c settings.Credential) settings.Provider {
	s := settings.Default()
	p, _ := s.Provider(name)
	p.Credential = c
	return p
}

func TestLocate(t *testing.T) {
	s := credentials.StoreIn(home(t))
	set(t, s, "groq", "stored-groq")
	set(t, s, "work", "stored-work")
	set(t, s, "openai", "stored-openai")
	keys := &credentials.Keys{Store: s,
		Environ: []string{"OPENAI_API_KEY=" + sentinel, "WORK_KEY=from-work", "GROQ_API_KEY= "}}
	for _, tc := range []struct {
		provider string
		c        settings.Credential
		where    string
		key      string // "" when there is none
		hint     string
	}{
		{"openai", settings.Credential{}, "OPENAI_API_KEY", sentinel, ""},
		{"openai", settings.Credential{Source: "credential_file"}, "profile openai", "stored-openai", ""},
		{"openai", settings.Credential{Profile: "work"}, "profile work", "stored-work", ""},
		{"openai", settings.Credential{Env: "WORK_KEY"}, "WORK_KEY", "from-work", ""},
		{"openai", settings.Credential{Env: "NO_KEY"}, "NO_KEY", "",
			"set it in the environment, or store a key with: holon credentials set openai"},
		{"openai", settings.Credential{Profile: "none"}, "profile none", "", "holon credentials set none"},
		{"openai", settings.Credential{Source: "command"}, "command ", "",
			"holon config set providers.openai.credential.command"},
		{"openai", settings.Credential{Source: "none"}, "none", "", ""},
		{"groq", settings.Credential{}, "profile groq", "stored-groq", ""},
		{"anthropic", settings.Credential{}, "ANTHROPIC_API_KEY", "",
			"set it in the environment, or store a key with: holon credentials set anthropic"},
		{"ollama", settings.Credential{}, "none", "", ""},
	} {
		p := provider(tc.provider, tc.c)
		w, _, err := keys.Locate(p)
		if err != nil || w.String() != tc.where {
			t.Errorf("%s %+v: %s, %v", tc.provider, tc.c, w, err)
		}
		_, source, err := keys.Source(p)
		switch {
		case tc.key != "":
			key, keyErr := source.Key(t.Context())
			if err != nil || keyErr != nil || key.Reveal() != tc.key {
				t.Errorf("%s %+v: %q, %v, %v", tc.provider, tc.c, key.Reveal(), err, keyErr)
			}
		case tc.hint == "":
			if source != nil || err != nil {
				t.Errorf("%s %+v: %v, %v", tc.provider, tc.c, source, err)
			}
		default:
			e, ok := errors.AsType[*state.Error](err)
			if !ok {
				t.Fatalf("%s %+v: %v", tc.provider, tc.c, err)
			}
			expect.Equal(t, fmt.Sprintf("%+v: e.Code", tc), e.Code, credentials.CodeMissing)
			expect.Equal(t, fmt.Sprintf("%+v: its hint", tc),
				strings.HasPrefix(e.Hint, tc.hint), true)
		}
	}
	keys.Environ = []string{"OPENAI_API_KEY=two words"}
	if _, _, err := keys.Source(provider("openai", settings.Credential{})); code(err) != credentials.CodeInvalidKey ||
		strings.Contains(err.Error(), "words") {
		t.Errorf("%v", err)
	}
}

// A stored key that is replaced while a run goes on is used from then on.
func TestProfileIsRenewed(t *testing.T) {
	s := credentials.StoreIn(home(t))
	set(t, s, "openai", "old")
	_, source, err := (&credentials.Keys{Store: s}).Source(provider("openai", settings.Credential{}))
	expect.NoError(t, err)
	old, err := source.Key(t.Context())
	if err != nil || old.Reveal() != "old" {
		t.Fatalf("%v", err)
	}
	set(t, s, "openai", "new")
	if key, err := source.Renew(t.Context(), old); err != nil || key.Reveal() != "new" {
		t.Errorf("%q, %v", key.Reveal(), err)
	}
	expect.NoError(t, s.Remove("openai"))
	if _, err := source.Key(t.Context()); code(err) != credentials.CodeMissing {
		t.Errorf("%v", err)
	}
}

func TestMask(t *testing.T) {
	for key, want := range map[string]string{sentinel: "…cdef", "short": "…", "fifteen-letters": "…",
		"sixteen-letters!": "…ers!", "": "…"} {
		expect.Equal(t, key, credentials.Mask(gateway.NewSecret(key)), want)
	}
}
