// Package gateway_test has what agentd sends to providers pass through the host's
// gateway.
package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/registry"
	"holon/agentd/turntoken"
	"holon/internal/providers"
	"holon/responses"
	"holon/runner/gateway"
)

// provider answers nothing of use, and counts what it was asked.
type provider struct{ asked atomic.Int64 }

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		p.asked.Add(1)
	}
	w.WriteHeader(http.StatusBadRequest)
}

func text(role responses.Role, s string) *responses.Message {
	return &responses.Message{Role: role, Content: []responses.Part{responses.InputText(s)}}
}

// requests are such that every key is sent that agentd knows.
func requests() map[string]model.Request {
	yes, effort, summary, description, limit := true, "high", "auto", "d", 4096
	const image = "data:image/png;base64,iVBORw0KGgo="
	shown := []responses.Part{{Type: responses.PartInputImage, ImageURL: image}}
	items := []responses.Item{
		text(responses.RoleSystem, "s"), text(responses.RoleDeveloper, "d"),
		&responses.Message{Role: responses.RoleUser,
			Content: append([]responses.Part{responses.InputText("héé 😀 \u2028")}, shown...)},
		&responses.Reasoning{ID: "rs_1", Summary: []responses.Part{{Type: responses.PartSummaryText, Text: "s"}},
			EncryptedContent: "opaque"},
		&responses.Message{Role: responses.RoleAssistant, Phase: responses.PhaseCommentary,
			Content: []responses.Part{responses.OutputText("a <b>"), {Type: responses.PartRefusal, Refusal: "no"}}},
		&responses.ToolCall{CallID: "c1", Name: "ApplyPatch", Arguments: `{"patch":"x","patch ":[1e9,{"patch":1}]}`,
			Output: "out", Media: shown},
		&responses.ToolCall{CallID: "c2", Name: "ApplyPatch", Arguments: `{"patch":"x"}`, Output: "out"},
		&responses.FunctionCall{CallID: "c3", Name: "weather", Arguments: `{`},
		&responses.FunctionCallOutput{CallID: "c3",
			Output: []responses.Part{responses.InputText("sunny"), responses.InputText("warm")}},
		text(responses.RoleUser, "go on"),
	}
	schema := json.RawMessage(`{"type":"object","properties":{"model":{"type":"string"},"Model":{"default":"https:` +
		`//x"}},"required":["model"],"additionalProperties":false}`)
	tools := []model.Tool{
		{Name: "ApplyPatch", Description: "d", Parameters: schema, Strict: &yes, StrictForm: schema,
			Freeform: &model.Freeform{Argument: "patch", Description: "d", Syntax: "lark", Definition: "start: x"}},
		{Name: "weather"},
	}
	full := model.Request{
		Instructions: "Be brief. And so on.", Breakpoints: []int{9}, Input: items, Tools: tools,
		ParallelToolCalls: true, MaxOutputTokens: &limit,
		Temperature: 0.5, TopP: 0.5, PresencePenalty: 0.1, FrequencyPenalty: 0.1,
		Sampling:  responses.Sampling{Temperature: true, TopP: true, PresencePenalty: true, FrequencyPenalty: true},
		Reasoning: &responses.ReasoningConfig{Effort: &effort, Summary: &summary}, ServiceTier: "auto",
		PromptCacheKey: "k", SafetyIdentifier: "u",
		Metadata: map[string]string{"a": "b"}, Logprobs: true, TopLogprobs: 3,
		Text: responses.TextConfig{Verbosity: "low",
			Format: responses.TextFormat{Type: "json_schema", Name: "n", Description: &description, Schema: schema,
				Strict: true}},
	}
	named, allowed, plain, file := full, full, full, full
	named.ToolChoice, named.ParallelToolCalls = responses.ToolChoice{Name: "weather"}, false
	allowed.ToolChoice = responses.ToolChoice{Mode: "required", Allowed: []string{"ApplyPatch", "weather"}}
	plain = model.Request{Input: []responses.Item{text(responses.RoleUser, "hi")},
		Text: responses.TextConfig{Format: responses.TextFormat{Type: "json_object"}}}
	file.Input = []responses.Item{&responses.Message{Role: responses.RoleUser, Content: []responses.Part{
		{Type: responses.PartInputFile, FileName: "f.pdf", FileData: "data:application/pdf;base64,JVBERi0="},
		{Type: responses.PartInputFile, FileName: "f.txt", FileData: "data:text/plain;base64,aGk="}}}}
	return map[string]model.Request{"full": full, "named": named, "allowed": allowed, "plain": plain, "file": file}
}

// The gateway's grammars have every key that agentd sends to any provider.
func TestAgentdFitsTheGrammar(t *testing.T) {
	refs := []string{"openai/gpt-5", "openai/gpt-4.1", "openai-codex/gpt-5-codex", "lmstudio/m", "responses/m",
		"anthropic/claude-opus-4-8", "anthropic/claude-sonnet-4-5", "anthropic/claude-3-5-haiku-latest",
		"openrouter/x/y", "deepseek/m", "mistral/m", "groq/m", "moonshot/m", "dashscope/m", "ollama/m"}
	up := &provider{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	options := gateway.Options{Providers: make(map[string]gateway.Provider)}
	for _, ref := range refs {
		name, _, _ := providers.SplitRef(ref)
		options.Providers[name] = gateway.Provider{BaseURL: server.URL, Auth: providers.AuthNone}
	}
	socket, token := serve(t, options, refs)
	set, err := registry.Open(registry.Options{References: refs, Socket: socket, Freeform: true,
		Setting: func(name string) string {
			if strings.HasSuffix(name, "_STRICT_TOOLS") {
				return "true"
			}
			return ""
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, ref := range refs {
		provider, name, _ := providers.SplitRef(ref)
		for kind, req := range requests() {
			req.Model = name
			before := up.asked.Load()
			var failed error
			for _, err := range set.Offered[provider].Stream(turntoken.With(t.Context(), token), req) {
				failed = err
			}
			switch {
			case up.asked.Load() == before+1:
			case failed != nil && strings.Contains(failed.Error(), "cannot be sent to this provider"): // and was not
			default:
				t.Errorf("%s, %s: the provider was asked %d times: %v", ref, kind, up.asked.Load()-before, failed)
			}
		}
	}
}

// serve serves a gateway and returns its socket and the token of a turn.
func serve(t *testing.T, options gateway.Options, refs []string) (path, token string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // short: sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(options)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "ipc", "model.sock")
	server, err := g.Serve(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
		g.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	secret, hash := gateway.NewToken()
	if _, err := server.Grant(gateway.Grant{TurnID: "turn_1", Token: hash, Models: refs}); err != nil {
		t.Fatal(err)
	}
	return path, secret.Reveal()
}
