// Package providers says which providers of models are known without
// configuration, and how each is asked: its endpoint, the API it speaks, how it
// takes its key, and in what it differs from others that speak the same API.
//
// agentd makes transports of the table; the host makes routes of its gateway of
// it. It is data and rules over data: no I/O, no environment, no state.
//
// The built-in providers are those whose endpoint takes a key in a header, or
// nothing, and whose API fits a contract as it is; whatever needs signed
// requests, a login or headers of its own is not here.
package providers

import (
	"slices"
	"strings"
)

// BindingBeta is the one value of Anthropic-Beta that a request has. It lets the
// request say what becomes of thoughts whose conversation has changed since, as by
// compaction: they are left out, not refused.
const BindingBeta = "thinking-binding-controls-2026-08-01"

// Contract says which API a provider speaks (runtime specification, "Provider
// Transport Contract").
type Contract string

// The contracts.
const (
	OpenAIResponses      Contract = "openai_responses"        // OpenAI's own Responses API
	OpenAICodexResponses Contract = "openai_codex_responses"  // ChatGPT's Codex backend
	ChatCompletions      Contract = "openai_chat_completions" // Chat Completions, in any dialect
	OpenResponses        Contract = "responses"               // any Open Responses server
	AnthropicMessages    Contract = "anthropic_messages"      // Anthropic's Messages API
)

// Contracts returns all contracts, in the order in which a person is told of them.
func Contracts() []Contract {
	return []Contract{ChatCompletions, OpenResponses, OpenAIResponses, OpenAICodexResponses, AnthropicMessages}
}

// ContractNames lists the contracts for a person.
func ContractNames() string {
	var names []string
	for _, c := range Contracts() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// Known reports whether c is one of Contracts.
func (c Contract) Known() bool { return slices.Contains(Contracts(), c) }

// Auth says how a provider takes its key.
type Auth string

// The ways to take a key.
const (
	AuthBearer  Auth = "bearer"    // Authorization: Bearer KEY
	AuthXAPIKey Auth = "x-api-key" // X-Api-Key: KEY
	AuthChatGPT Auth = "chatgpt"   // as AuthBearer, and Chatgpt-Account-Id with the account that the token is for
	AuthNone    Auth = "none"      // not at all
)

// Auth returns how providers that speak c take a key.
func (c Contract) Auth() Auth {
	switch c {
	case AnthropicMessages:
		return AuthXAPIKey
	case OpenAICodexResponses:
		return AuthChatGPT
	}
	return AuthBearer
}

// Path returns where a provider that speaks c takes a POST, below its endpoint; "" for an unknown contract.
func (c Contract) Path() string {
	switch c {
	case OpenAIResponses, OpenAICodexResponses, OpenResponses:
		return "/responses"
	case ChatCompletions:
		return "/chat/completions"
	case AnthropicMessages:
		return "/v1/messages"
	}
	return ""
}

// Provider is an entry of the table.
type Provider struct {
	Name        string
	Contract    Contract
	BaseURL     string  // what the path of the contract is appended to; "" when only a setting can tell
	KeyOptional bool    // a server that may want no key
	Dialect     Dialect // of ChatCompletions
}

// Names of providers that code has to tell from the others.
const (
	OpenAI      = "openai" // of the model that is asked where none is chosen
	OpenAICodex = "openai-codex"
	Anthropic   = "anthropic"
	Scripted    = "scripted" // plays scenario files; in no table, since there is nothing to ask
)

// Builtin returns the providers that are known without configuration, sorted by
// name.
func Builtin() []Provider {
	hosted := func(name, base string, d Dialect) Provider {
		return Provider{Name: name, Contract: ChatCompletions, BaseURL: base, Dialect: d}
	}
	local := func(name string, c Contract, base string) Provider {
		return Provider{Name: name, Contract: c, BaseURL: base, KeyOptional: true, Dialect: Dialect{Images: true}}
	}
	return []Provider{
		{Name: Anthropic, Contract: AnthropicMessages, BaseURL: "https://api.anthropic.com"},
		hosted("cerebras", "https://api.cerebras.ai/v1",
			Dialect{Thoughts: ThoughtsDropped, MaxTokensKey: "max_completion_tokens"}),
		hosted("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
			Dialect{Images: true, Thoughts: ThoughtsDropped}),
		hosted("deepinfra", "https://api.deepinfra.com/v1/openai", Dialect{Images: true}),
		hosted("deepseek", "https://api.deepseek.com",
			Dialect{Thoughts: ThoughtsDemanded, Structured: StructuredObject}),
		hosted("fireworks", "https://api.fireworks.ai/inference/v1", Dialect{Images: true}),
		hosted("groq", "https://api.groq.com/openai/v1",
			Dialect{Images: true, Thoughts: ThoughtsDropped, MaxTokensKey: "max_completion_tokens"}),
		hosted("huggingface", "https://router.huggingface.co/v1", Dialect{Images: true}),
		local("llamacpp", ChatCompletions, "http://127.0.0.1:8080/v1"),
		local("lmstudio", OpenResponses, "http://127.0.0.1:1234/v1"),
		hosted("mistral", "https://api.mistral.ai/v1",
			Dialect{Images: true, Thoughts: ThoughtsDropped, ShortCallIDs: true, Omit: []string{"stream_options"}}),
		hosted("moonshot", "https://api.moonshot.ai/v1", Dialect{Images: true, Thoughts: ThoughtsDemanded}),
		hosted("nvidia", "https://integrate.api.nvidia.com/v1", Dialect{Images: true}),
		local("ollama", ChatCompletions, "http://127.0.0.1:11434/v1"),
		{Name: OpenAI, Contract: OpenAIResponses, BaseURL: "https://api.openai.com/v1"},
		{Name: OpenAICodex, Contract: OpenAICodexResponses, BaseURL: "https://chatgpt.com/backend-api/codex"},
		hosted("openrouter", "https://openrouter.ai/api/v1",
			Dialect{Images: true, Files: true, EffortKey: "reasoning"}),
		hosted("perplexity", "https://api.perplexity.ai",
			Dialect{Images: true, NoTools: true, Thoughts: ThoughtsDropped}),
		{Name: "responses", Contract: OpenResponses, KeyOptional: true},
		hosted("siliconflow", "https://api.siliconflow.com/v1", Dialect{Images: true}),
		hosted("together", "https://api.together.xyz/v1", Dialect{Images: true}),
		local("vllm", ChatCompletions, "http://127.0.0.1:8000/v1"),
		hosted("xai", "https://api.x.ai/v1", Dialect{Images: true, Thoughts: ThoughtsDropped}),
		hosted("zai", "https://api.z.ai/api/paas/v4", Dialect{Images: true}),
	}
}

// Find returns the built-in provider of that name.
func Find(name string) (Provider, bool) {
	list := Builtin()
	i, ok := slices.BinarySearchFunc(list, name, func(p Provider, name string) int {
		return strings.Compare(p.Name, name)
	})
	if !ok {
		return Provider{}, false
	}
	return list[i], true
}

// ValidName reports whether a provider may have that name: a lower-case letter,
// then up to 63 lower-case letters, digits, '_', '-' and '.'.
func ValidName(name string) bool {
	if name == "" || len(name) > 64 || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// Setting returns the name of a provider's variable: X_BASE_URL, X_API_KEY.
func Setting(provider, what string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(provider)) + "_" + what
}

// GatewayHeader marks an answer that the host's gateway gave itself, instead of a provider. Its value is a [Cause], or
// says nothing.
const GatewayHeader = "X-Holon-Gateway"

// AddressHeader is the address of the provider, in what the host's gateway answers: in early hints before it asks the
// provider, and in the answer.
const AddressHeader = "X-Holon-Address"

// SplitRef takes a reference, "provider/model", apart. The model's own name may
// hold slashes.
func SplitRef(ref string) (provider, name string, ok bool) {
	provider, name, ok = strings.Cut(ref, "/")
	return provider, name, ok && provider != "" && name != ""
}

// HasWindow reports whether anything is known of the window of the model that ref
// names.
func HasWindow(ref string) bool { return family(ref) != unknown }
