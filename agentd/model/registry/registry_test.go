package registry_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/model/registry"
	"holon/internal/providers"
	"holon/responses"
	"holon/test/expect"
)

func open(t *testing.T, env map[string]string, opts registry.Options) (*registry.Set, error) {
	t.Helper()
	opts.Setting = func(name string) string { return env[name] }
	opts.Taken = append(opts.Taken, "scripted")
	set, err := registry.Open(opts)
	if err == nil {
		t.Cleanup(func() {
			if err := set.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return set, err
}

func names(m map[string]model.Transport) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}

func TestBuiltin(t *testing.T) {
	set, err := open(t, nil, registry.Options{})
	expect.NoError(t, err)
	if names(set.Offered) != "openai" || len(set.Unlisted) != len(providers.Builtin())-1 {
		t.Errorf("without settings: offered %s, unlisted %s", names(set.Offered), names(set.Unlisted))
	}
	for name, tr := range set.Unlisted {
		err := tr.(model.Checker).Check("m")
		p := providers.Builtin()[slices.IndexFunc(providers.Builtin(), func(p providers.Provider) bool {
			return p.Name == name
		})]
		prefix := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		switch {
		case name == "responses":
			if err == nil || !strings.Contains(err.Error(), "RESPONSES_BASE_URL") {
				t.Errorf("%s: %v", name, err)
			}
		case p.KeyOptional != (err == nil), err != nil && !strings.Contains(err.Error(), "set "+prefix+"_API_KEY"):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigured(t *testing.T) {
	env := map[string]string{
		"DEEPSEEK_API_KEY": "k", "OLLAMA_BASE_URL": "http://127.0.0.1:9/v1", "ACME_BASE_URL": "http://127.0.0.1:9/v1",
		"MY_LAB_BASE_URL":    "unix:///run/lab.sock:/v1",
		"RESPONSES_BASE_URL": "http://127.0.0.1:9", "ACME_TIMEOUT": "90s", "OPENROUTER_STREAM": "false",
		"PLAIN_BASE_URL": "http://127.0.0.1:9",
	}
	set, err := open(t, env, registry.Options{
		Configured: []string{"my-lab=responses", "old=aws_bedrock", "empty"},
		References: []string{"acme/m", "openrouter/a/b", "plain", "nowhere/m", "scripted/demo"},
	})
	expect.NoError(t, err)
	expect.Equal(t, "offered", names(set.Offered), "acme deepseek empty my-lab old ollama openai openrouter responses")
	if set.Totals["acme"].Seconds() != 90 || len(set.Totals) != 1 {
		t.Errorf("%v", set.Totals)
	}
	for name, want := range map[string]string{"old": "aws_bedrock", "empty": "EMPTY_BASE_URL",
		"openrouter": "OPENROUTER_API_KEY"} {
		check, ok := errors.AsType[*responses.Error](set.Offered[name].(model.Checker).Check("m"))
		if !ok || !strings.Contains(check.Error(), want) {
			t.Errorf("%s: %v", name, check)
		}
	}
	for _, name := range []string{"acme", "my-lab", "responses", "deepseek"} {
		if err := set.Offered[name].(model.Checker).Check("m"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A model that cannot be asked fails so that the next candidate is tried.
	for _, err := range set.Offered["old"].Stream(t.Context(), model.Request{}) {
		e, ok := errors.AsType[*model.Error](err)
		if !ok || e.Kind != model.KindUnsupported || e.Retryable() || e.Diagnostics.Stage != model.StageSelect {
			t.Errorf("%#v, want an error of kind %s at stage %s for good", err, model.KindUnsupported,
				model.StageSelect)
		}
	}
}

// Behind a gateway there are the providers that are named, and neither keys nor
// endpoints.
func TestGateway(t *testing.T) {
	env := map[string]string{"DEEPSEEK_API_KEY": "k", "OPENAI_API_KEY": "k", "GROQ_BASE_URL": "ftp://nonsense"}
	set, err := open(t, env, registry.Options{Socket: "/run/model.sock",
		Configured: []string{"groq", "acme=anthropic_messages"}, References: []string{"lab/m"}})
	if err != nil || names(set.Offered) != "acme groq lab" || len(set.Unlisted) != 0 {
		t.Fatalf("offered %v, unlisted %v, error %v", set, names(set.Unlisted), err)
	}
	for name, tr := range set.Offered {
		if err := tr.(model.Checker).Check("m"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if set, err = open(t, env, registry.Options{Socket: "/run/model.sock"}); err != nil ||
		names(set.Offered) != "openai" {
		t.Errorf("named nothing: %v, %v", names(set.Offered), err)
	}
}

func TestWrongSettings(t *testing.T) {
	for param, env := range map[string]map[string]string{
		"GROQ_BASE_URL": {"GROQ_BASE_URL": "api.groq.com"}, "GROQ_STREAM": {"GROQ_STREAM": "maybe"},
		"GROQ_TIMEOUT":      {"GROQ_TIMEOUT": "-1s"},
		"GROQ_IDLE_TIMEOUT": {"GROQ_IDLE_TIMEOUT": "5"}, "GROQ_IMAGES": {"GROQ_IMAGES": "2"},
		"OPENAI_CODEX_STREAM": {"OPENAI_CODEX_STREAM": "false"},
	} {
		_, err := open(t, env, registry.Options{})
		if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != param || e.Hint == "" {
			t.Errorf("%+v, want an error about %s with a hint", err, param)
		}
	}
	for _, entry := range []string{"Acme", "a b", "=x", "scripted=responses"} {
		_, err := open(t, nil, registry.Options{Configured: []string{entry}})
		if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != "HOLON_PROVIDERS" {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
