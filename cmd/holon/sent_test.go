package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"holon/internal/redact"
	"holon/responses/turns"
)

// cmdSent checks that what `holon debug prompt --json` printed is what a provider of OpenAI's Responses was sent:
//
//	sent PREVIEW BODY
//
// The newest item of the conversation tells the time and the id of its message, and is not compared. The key of OpenAI
// is redacted in what is shown.
func cmdSent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sent PREVIEW BODY")
	}
	var shown struct {
		Cache struct {
			PromptCacheKey string `json:"prompt_cache_key"`
		} `json:"cache"`
		Request turns.Preview `json:"request"`
	}
	var body struct {
		Model          string            `json:"model"`
		Instructions   string            `json:"instructions"`
		PromptCacheKey string            `json:"prompt_cache_key"`
		Input          []json.RawMessage `json:"input"`
		Tools          []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &shown))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &body))
	r := shown.Request
	if r.PromptCacheKey != body.PromptCacheKey || shown.Cache.PromptCacheKey != body.PromptCacheKey {
		ts.Fatalf("the cache key is shown as %q and %q, and sent as %q", shown.Cache.PromptCacheKey, r.PromptCacheKey,
			body.PromptCacheKey)
	}
	body.Instructions = strings.ReplaceAll(body.Instructions, ts.Getenv("OPENAI_API_KEY"), redact.Mask)
	if r.Instructions != body.Instructions || r.Model != "openai/"+body.Model || len(r.Input) != len(body.Input) {
		ts.Fatalf("shown are %s, %d items and the instructions\n%s\nsent were %s, %d items and\n%s", r.Model,
			len(r.Input), r.Instructions, body.Model, len(body.Input), body.Instructions)
	}
	var have, want []string
	for _, t := range r.Tools {
		have = append(have, t.Name)
	}
	for _, t := range body.Tools {
		want = append(want, t.Name)
	}
	if !slices.Equal(have, want) {
		ts.Fatalf("the tools are shown as %q, and sent as %q", have, want)
	}
}
