// Package catalogue knows the providers that can be used with nothing but a key,
// and makes transports of them and of others that a configuration names.
//
// A provider is a name, a contract (which API it speaks) and an endpoint. The
// built-in ones are those whose endpoint takes a bearer token, or nothing, and
// whose API fits a contract as it is; whatever needs signed requests, special
// headers or a login is not here. A provider x takes X_BASE_URL, X_API_KEY and
// the other settings of [Open].
//
// The invariant: a provider that cannot be asked, since its contract is unknown
// or its endpoint is not set, is there all the same and refuses, so that a
// fallback goes on and the record says why.
package catalogue

import "holon/agentd/model/chat"

// Contract says which API a provider speaks (runtime specification, "Provider
// Transport Contract").
type Contract string

// The contracts of this package.
const (
	OpenAIResponses      Contract = "openai_responses"        // OpenAI's own Responses API
	OpenAICodexResponses Contract = "openai_codex_responses"  // ChatGPT's Codex backend
	ChatCompletions      Contract = "openai_chat_completions" // Chat Completions, in any dialect
	OpenResponses        Contract = "responses"               // any Open Responses server
)

// Provider is an entry of the catalogue.
type Provider struct {
	Name        string
	Contract    Contract
	BaseURL     string // "" when only a setting can tell
	KeyOptional bool   // a server that may want no key
	Dialect     chat.Dialect
}

// Builtin returns the providers that are known without configuration, sorted by
// name.
func Builtin() []Provider {
	hosted := func(name, base string, d chat.Dialect) Provider {
		return Provider{Name: name, Contract: ChatCompletions, BaseURL: base, Dialect: d}
	}
	local := func(name string, c Contract, base string) Provider {
		return Provider{Name: name, Contract: c, BaseURL: base, KeyOptional: true, Dialect: chat.Dialect{Images: true}}
	}
	return []Provider{
		hosted("cerebras", "https://api.cerebras.ai/v1", chat.Dialect{Thoughts: chat.ThoughtsDropped, MaxTokensKey: "max_completion_tokens"}),
		hosted("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", chat.Dialect{Images: true, Thoughts: chat.ThoughtsDropped}),
		hosted("deepinfra", "https://api.deepinfra.com/v1/openai", chat.Dialect{Images: true}),
		hosted("deepseek", "https://api.deepseek.com", chat.Dialect{Thoughts: chat.ThoughtsDemanded, Structured: chat.StructuredObject}),
		hosted("fireworks", "https://api.fireworks.ai/inference/v1", chat.Dialect{Images: true}),
		hosted("groq", "https://api.groq.com/openai/v1", chat.Dialect{Images: true, Thoughts: chat.ThoughtsDropped, MaxTokensKey: "max_completion_tokens"}),
		hosted("huggingface", "https://router.huggingface.co/v1", chat.Dialect{Images: true}),
		local("llamacpp", ChatCompletions, "http://127.0.0.1:8080/v1"),
		local("lmstudio", OpenResponses, "http://127.0.0.1:1234/v1"),
		hosted("mistral", "https://api.mistral.ai/v1", chat.Dialect{Images: true, Thoughts: chat.ThoughtsDropped, ShortCallIDs: true, Omit: []string{"stream_options"}}),
		hosted("moonshot", "https://api.moonshot.ai/v1", chat.Dialect{Images: true, Thoughts: chat.ThoughtsDemanded}),
		hosted("nvidia", "https://integrate.api.nvidia.com/v1", chat.Dialect{Images: true}),
		local("ollama", ChatCompletions, "http://127.0.0.1:11434/v1"),
		{Name: "openai", Contract: OpenAIResponses},
		{Name: "openai-codex", Contract: OpenAICodexResponses},
		hosted("openrouter", "https://openrouter.ai/api/v1", chat.Dialect{Images: true, Files: true, EffortKey: "reasoning"}),
		hosted("perplexity", "https://api.perplexity.ai", chat.Dialect{Images: true, NoTools: true, Thoughts: chat.ThoughtsDropped}),
		{Name: "responses", Contract: OpenResponses, KeyOptional: true},
		hosted("siliconflow", "https://api.siliconflow.com/v1", chat.Dialect{Images: true}),
		hosted("together", "https://api.together.xyz/v1", chat.Dialect{Images: true}),
		local("vllm", ChatCompletions, "http://127.0.0.1:8000/v1"),
		hosted("xai", "https://api.x.ai/v1", chat.Dialect{Images: true, Thoughts: chat.ThoughtsDropped}),
		hosted("zai", "https://api.z.ai/api/paas/v4", chat.Dialect{Images: true}),
	}
}
