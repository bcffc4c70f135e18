package providers_test

import (
	"testing"

	"holon/internal/providers"
	"holon/test/expect"
)

func TestWindows(t *testing.T) {
	set, err := providers.ParseWindows(" lab/=32768, lab/large-=200000/50000 ,openai/gpt-4o=64000/4000,free/=0")
	expect.NoError(t, err)
	for ref, want := range map[string]providers.Window{
		"openai/gpt-5-mini":           {Context: 400_000, Output: 128_000},
		"openai/gpt-5-chat-latest":    {Context: 128_000, Output: 16_384},
		"openai/gpt-4o":               {Context: 64_000, Output: 4_000, Firm: true},
		"openrouter/openai/gpt-4o":    {Context: 128_000, Output: 16_384, Firm: true},
		"anthropic/claude-opus-5":     {Context: 200_000, Output: 64_000, Scale: 1.2},
		"anthropic/claude-3-5-haiku":  {Context: 200_000, Output: 8_192, Firm: true, Scale: 1.2},
		"openrouter/X/Claude-3-Opus":  {Context: 200_000, Output: 8_192, Firm: true, Scale: 1.2},
		"lab/small":                   {Context: 32_768, Output: 8_192, Firm: true},
		"lab/large-9":                 {Context: 200_000, Output: 50_000, Firm: true},
		"free/x":                      {Firm: true},
		"acme/never-heard-of":         {Context: 128_000, Output: 8_192},
		"scripted/demo":               {},
		"scripted//tmp/gpt-4o.json":   {},
		"no provider":                 {Context: 128_000, Output: 8_192},
		"openai/o1-mini-2024":         {Context: 128_000, Output: 65_536, Firm: true},
		"deepseek/deepseek-reasoner":  {Context: 128_000, Output: 32_768},
		"dashscope/qwen3-coder-plus":  {Context: 262_144, Output: 65_536},
		"groq/llama-3.3-70b":          {Context: 128_000, Output: 8_192},
		"moonshot/moonshot-v1-8k":     {Context: 8_192, Output: 4_096, Firm: true},
		"openai/gpt-4-0613":           {Context: 8_192, Output: 4_096},
		"vertex/google/gemini-3-pro":  {Context: 1_048_576, Output: 65_536},
		"openai/ft:gpt-4o:acme::x":    {Context: 128_000, Output: 8_192}, // a name that hides its family
		"anthropic/claude-3-7-sonnet": {Context: 200_000, Output: 64_000, Firm: true, Scale: 1.2},
	} {
		expect.Equal(t, ref, set.Of(ref), want)
	}
	for _, text := range []string{"lab", "lab/=", "lab/=many", "lab/=-1", "=5", "lab/=100/100", "lab/=100/",
		"lab/=1e6"} {
		if _, err := providers.ParseWindows(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestRoom(t *testing.T) {
	short, long := 100, 1_000_000
	for _, tt := range []struct {
		w     providers.Window
		limit *int
		want  int
	}{
		{providers.Window{}, nil, 0},
		{providers.Window{Context: 1000, Output: 200}, nil, 800},
		{providers.Window{Context: 1000, Output: 200}, &short, 900},
		{providers.Window{Context: 1000, Output: 200}, &long, 800},
		{providers.Window{Context: 1000, Output: 900}, nil, 500},
	} {
		if got := tt.w.Capacity(tt.limit); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.w, got, tt.want)
		}
	}
}
