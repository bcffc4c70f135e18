package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holon/test/expect"

	"github.com/google/go-cmp/cmp"

	"holon/runner/settings"
	"holon/state"
)

func TestSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", settings.UserFile)
	set := func(key, value string) {
		t.Helper()
		expect.NoError(t, settings.Set(path, key, value))
	}
	set("model.default", "openai/gpt-5")
	set("providers.my.lab.base_url", "http://10.0.0.5/v1")
	set("providers.my.lab.credential.command", `["pass", "a,b"]`)
	set("providers.my.lab.stream", "false")
	set("model.fallbacks", "a/b, c/d")
	set("budgets.run.max_cost", "2.50")
	set("models.catalog.openai/gpt-4.1.context_window", "1000")
	want := `{
  "budgets": {
    "run": {
      "max_cost": 2.5
    }
  },
  "model": {
    "default": "openai/gpt-5",
    "fallbacks": [
      "a/b",
      "c/d"
    ]
  },
  "models": {
    "catalog": {
      "openai/gpt-4.1": {
        "context_window": 1000
      }
    }
  },
  "providers": {
    "my.lab": {
      "base_url": "http://10.0.0.5/v1",
      "credential": {
        "command": [
          "pass",
          "a,b"
        ]
      },
      "stream": false
    }
  }
}
`
	content := func() string { return contentOf(t, path) }
	if diff := cmp.Diff(want, content()); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	l := settings.Load(settings.Sources{File: path})
	p, _ := l.Provider("my.lab")
	expect.NoError(t, l.Err())
	if p.Stream || l.Budget.MaxCost != 2_500_000 || len(p.Credential.Command) != 2 {
		t.Errorf("the provider is %+v and the budget %+v", p, l.Budget)
	}

	before := content()
	for _, wrong := range [][2]string{{"modle.default", "a/b"}, {"model.default", "gpt"}, {"providers.my.lab", "x"},
		{"engine", "podman"}, {"budgets.run.max_cost", "-1"}, {"", "x"}} {
		e, ok := errors.AsType[*state.Error](settings.Set(path, wrong[0], wrong[1]))
		if !ok || e.Hint == "" || e.Param != "KEY" && e.Param != "VALUE" {
			t.Errorf("%v: %#v, want a refusal of KEY or VALUE with a hint", wrong, err)
		}
	}
	if content() != before {
		t.Error("a wrong value was written")
	}
	testUnset(t, path)
}

// contentOf returns the text of a file.
func contentOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.NoError(t, err)
	return string(data)
}

// testUnset removes the settings that TestSet made, and changes files that others wrote.
func testUnset(t *testing.T, path string) {
	content := func() string { return contentOf(t, path) }
	for key, want := range map[string]bool{"providers.my.lab": true, "models": true, "budgets.run.max_cost": true,
		"model.fallbacks": true, "timeout": false} {
		if removed, err := settings.Unset(path, key); err != nil || removed != want {
			t.Errorf("%s: %t, %v", key, removed, err)
		}
	}
	if got := content(); got != "{\n  \"model\": {\n    \"default\": \"openai/gpt-5\"\n  }\n}\n" {
		t.Errorf("%s", got)
	}

	// The short form is understood when it is changed.
	expect.NoError(t, os.WriteFile(path, []byte(`{"model": "a/b"}`), 0o600))
	expect.NoError(t, settings.Set(path, "model.fallbacks", "c/d"))
	if l := settings.Load(settings.Sources{File: path}); l.Model != "a/b" || len(l.Fallbacks) != 1 {
		t.Errorf("%s, %v, %s", l.Model, l.Fallbacks, content())
	}
	// A file that is wrong is not written over.
	expect.NoError(t, os.WriteFile(path, []byte(`{"modle": "a/b"}`), 0o600))
	if err := settings.Set(path, "image", "x"); err == nil || content() != `{"modle": "a/b"}` {
		t.Errorf("%v, %s", err, content())
	}
}

// Concurrent writers keep each other's changes.
func TestWritersTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), settings.UserFile)
	var group sync.WaitGroup
	for _, name := range strings.Fields("a b c d e f g h") {
		group.Go(func() {
			if err := settings.Set(path, "providers."+name+".base_url", "http://"+name); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if l := settings.Load(settings.Sources{File: path}); l.Err() != nil || len(l.Providers) != 8 {
		t.Errorf("%v, %d providers", l.Err(), len(l.Providers))
	}
}
