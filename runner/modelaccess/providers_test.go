package modelaccess_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"holon/runner/credentials"
	"holon/runner/gateway"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/state"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host returns a host with settings, as KEY=VALUE, and an environment.
func host(t *testing.T, set []string, environ ...string) (*modelaccess.Host, *settings.Loaded) {
	t.Helper()
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	for _, kv := range set {
		key, value, _ := strings.Cut(kv, "=")
		expect.NoError(t, settings.Set(settings.Path(home), key, value))
	}
	store := credentials.StoreIn(home)
	expect.NoError(t, store.Set("stored", gateway.NewSecret("sk-stored-0123456789"), time.Now()))
	l := settings.Load(settings.Sources{File: settings.Path(home), Environ: environ})
	return &modelaccess.Host{Settings: &l.Settings, Keys: &credentials.Keys{Store: store, Environ: environ}}, l
}

func TestOpen(t *testing.T) {
	h, _ := host(t, []string{
		"providers.acme.base_url=http://127.0.0.1:9/v1", "providers.acme.omit=stream_options,strict",
		"providers.acme.stream=false", "providers.acme.images=true",
		"providers.acme.idle_timeout=90s", "providers.acme.timeout=5m", "providers.acme.credential.profile=stored",
		"providers.lab.base_url=unix:///run/lab.sock:/v1", "providers.lab.contract=responses",
		"models.catalog.acme/small.context_window=8000", "model.unknown_fallback.context_window_tokens=32000",
	}, "OPENAI_API_KEY=sk-one-0123456789", "MISTRAL_API_KEY=sk-two-0123456789", "MISTRAL_IMAGES=false")
	a, err := h.Open(t.Context(), []string{"openai/gpt-5", "acme/small", "acme/large", "lab/x", "mistral/large",
		"ollama/qwen3", "scripted/demo"}, "--model")
	expect.NoError(t, err)
	defer a.Close()
	expect.Equal(t, "providers", strings.Join(a.Gateway.Providers(), " "), "acme lab mistral ollama openai")
	if diff := cmp.Diff([]string{"openai=openai_responses", "acme=openai_chat_completions", "lab=responses",
		"mistral=openai_chat_completions", "ollama=openai_chat_completions"}, a.Contracts); diff != "" {
		t.Errorf("contracts (-want +got):\n%s", diff)
	}
	want := []string{
		"ACME_STREAM=false", "ACME_IMAGES=true", "ACME_OMIT=stream_options,strict", "ACME_IDLE_TIMEOUT=1m30s",
		"ACME_TIMEOUT=5m0s", "MISTRAL_IMAGES=false",
		"HOLON_MODEL_WINDOWS=acme/small=8000/2000,acme/large=32000/8192,lab/x=32000/8192,mistral/large=32000/8192," +
			"ollama/qwen3=32000/8192",
	}
	if diff := cmp.Diff(want, a.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if text := strings.Join(append(a.Env, a.Contracts...), " "); strings.Contains(text, "sk-") ||
		strings.Contains(text, "127.0.0.1") {
		t.Errorf("a key or an endpoint goes into the container: %s", text)
	}
	none, err := h.Open(t.Context(), []string{"scripted/demo"}, "--model")
	if err != nil || none.Gateway != nil || len(none.Contracts) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	h, _ := host(t, []string{"providers.sealed.base_url=http://127.0.0.1:9", "providers.sealed.credential.source=env",
		"providers.half.images=true"}, "HOLON_MODEL=x/y")
	for ref, want := range map[string]string{
		"gpt-5":  `invalid_reference --model: "gpt-5" is not a model reference; write provider/name`,
		"Open/x": "invalid_reference --model: ",
		"nowhere/x": `unknown_provider --model: the provider "nowhere" is unknown; choose one of holon providers ` +
			`list, or give it an endpoint: holon config set providers.nowhere.base_url URL`,
		"half/x": "unknown_provider HALF_BASE_URL: is not set, and the provider half has no endpoint of its " +
			"own; set it, or holon config set",
		"groq/x": "missing_credentials GROQ_API_KEY: is not set, there is no stored key either, and models of " +
			"groq need one; set it in the environment, or store a key with: holon credentials set groq",
		"sealed/x": "missing_credentials SEALED_API_KEY: is not set and models of sealed need it; set it in the " +
			"environment, or store a key",
		"scripted/x": "",
	} {
		a, err := h.Open(t.Context(), []string{ref}, "--model")
		e, _ := errors.AsType[*state.Error](err)
		switch {
		case want == "" && err != nil, want != "" && e == nil:
			t.Errorf("%s: %v, %v", ref, a, err)
		case want != "":
			if got := string(e.Code) + " " + e.Param + ": " + e.Message + "; " + e.Hint; !strings.HasPrefix(got, want) {
				t.Errorf("%s:\ngot  %s\nwant %s", ref, got, want)
			}
		}
	}
}

func TestDoctor(t *testing.T) {
	h, l := host(t, nil, "OPENAI_API_KEY=sk-one-0123456789")
	list := h.Doctor(l)
	if len(list) != 1 {
		t.Fatalf("of nothing but a profile that is not used: len(list) = %d (%+v), want 1", len(list), list)
	}
	expect.Equal(t, "of nothing but a profile that is not used: list[0].Level", list[0].Level, modelaccess.Useless)
	expect.Equal(t, "of nothing but a profile that is not used: list[0].Key", list[0].Key, "stored")
	h, l = host(t, []string{
		"model.default=groq/x", "model.fallbacks=openai/gpt-5", "runtime.disable_provider_fallback=true",
		"budgets.run.max_cost=1",
		"providers.anthropic.omit=strict", "providers.half.images=true", "providers.a.base_url=http://a",
		"providers.a.credential.source=none", "providers.a.credential.env=X",
		"models.catalog.nowhere/x.context_window=9", "timeout=1h",
	}, "OPENAI_API_KEY=sk-one-0123456789", "HOLON_TIMEOUT=2h", "HOLON_MAX_ROUNDS=few")
	var got []string
	for _, f := range h.Doctor(l) {
		if f.Hint == "" || f.Message == "" {
			t.Errorf("%+v", f)
		}
		got = append(got, string(f.Level)+" "+filepath.Base(f.Source)+" "+f.Key)
	}
	slices.Sort(got)
	want := []string{
		"error HOLON_MAX_ROUNDS max_rounds", "error x budgets.run.max_cost", "error x default",
		"warning anthropic providers.anthropic", "warning config.json model.fallbacks",
		"warning config.json providers.a.credential.env", "warning config.json providers.anthropic.omit",
		"warning config.json timeout", "warning credentials.json stored", "warning half providers.half",
		"warning x models.catalog",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if !modelaccess.Broken(h.Doctor(l)) {
		t.Error("nothing is broken")
	}
}
