package config

import (
	"fmt"
	"strings"
	"time"

	"holon/internal/providers"
)

// models says which models there are and how they are reached.
type models struct {
	Default   string        `env:"HOLON_MODEL"`
	Fallbacks string        `env:"HOLON_MODEL_FALLBACKS"`
	Socket    string        `env:"HOLON_MODEL_SOCKET"`
	Providers string        `env:"HOLON_PROVIDERS"`
	Idle      time.Duration `env:"HOLON_MODEL_IDLE_TIMEOUT" envDefault:"5m" min:"1"`
	Timeout   time.Duration `env:"HOLON_MODEL_TIMEOUT" envDefault:"1h" min:"0"`
	RetryFor  time.Duration `env:"HOLON_RETRY_FOR" envDefault:"2m" min:"0"`
	Windows   string        `env:"HOLON_MODEL_WINDOWS"`
	Freeform  bool          `env:"HOLON_FREEFORM_TOOLS"`

	OpenAIKey        string `env:"OPENAI_API_KEY"`
	OpenAIBaseURL    string `env:"OPENAI_BASE_URL"`
	AnthropicKey     string `env:"ANTHROPIC_API_KEY"`
	AnthropicBaseURL string `env:"ANTHROPIC_BASE_URL"`

	windows providers.Windows // of Windows, once it is checked
}

func (m *models) validate(p *Problems) {
	if m.Default != "" {
		modelReference(p, "--model", m.Default)
	}
	for _, ref := range m.FallbackList() {
		modelReference(p, "--model-fallbacks", ref)
	}
	var err error
	if m.windows, err = providers.ParseWindows(m.Windows); err != nil {
		p.add("--model-windows", err.Error(), "write for example openai/gpt-5=400000/128000,lab/=32768")
	}
}

func modelReference(p *Problems, setting, ref string) {
	if provider, name, ok := strings.Cut(ref, "/"); !ok || provider == "" || name == "" {
		p.add(setting, fmt.Sprintf("%q is not a model reference", ref),
			"write provider/model, for example openai/gpt-5 or scripted/demo")
	}
}

// References returns the default model, which may be "", and its fallbacks in
// order.
func (m *models) References() []string { return append([]string{m.Default}, m.FallbackList()...) }

// FallbackList returns the fallback models, in order.
func (m *models) FallbackList() []string { return commaList(m.Fallbacks) }

// ProviderList returns the providers that the operator adds.
func (m *models) ProviderList() []string { return commaList(m.Providers) }

// Window returns the window of the model ref. Validate must have been called.
func (m *models) Window(ref string) providers.Window { return m.windows.Of(ref) }

// Gateway returns the socket of the model gateway, "" when there is none.
func (m *models) Gateway() string { return socketOr(m.Socket, defaultModelSocket) }

// Setting returns how settings of providers are looked up: those that Models
// names there, all others in the environment, since there may be any.
func (m *models) Setting(environ []string) func(name string) string {
	values := make(map[string]string)
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			values[name] = value
		}
	}
	values["OPENAI_API_KEY"], values["OPENAI_BASE_URL"] = m.OpenAIKey, m.OpenAIBaseURL
	values["ANTHROPIC_API_KEY"], values["ANTHROPIC_BASE_URL"] = m.AnthropicKey, m.AnthropicBaseURL
	return func(name string) string { return values[name] }
}
