package providers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Window is how much a model takes, in tokens.
type Window struct {
	Context int     // conversation and answer together; 0 for no bound
	Output  int     // the longest answer
	Firm    bool    // nothing but a refusal is to be expected beyond Context
	Scale   float64 // tokens of the model for one token of an estimate; 0 is 1
}

// unknown is the window of a model that no rule names: what hosted models have
// at least. A server of one's own may have less, and then a setting has to say so.
var unknown = Window{Context: 128_000, Output: 8_192}

// families are what is known of models, by how their names begin. The longest
// beginning counts. Only limits that their makers publish as hard ones are firm:
// a window that grew since must not be refused here.
var families = []struct {
	prefix string
	Window
}{
	{"gpt-3.5", Window{Context: 16_385, Output: 4_096, Firm: true}},
	{"gpt-4", Window{Context: 8_192, Output: 4_096}},
	{"gpt-4-turbo", Window{Context: 128_000, Output: 4_096, Firm: true}},
	{"gpt-4o", Window{Context: 128_000, Output: 16_384, Firm: true}},
	{"gpt-4.1", Window{Context: 1_047_576, Output: 32_768, Firm: true}},
	{"gpt-4.5", Window{Context: 128_000, Output: 16_384, Firm: true}},
	{"gpt-5", Window{Context: 400_000, Output: 128_000}},
	{"gpt-5-chat", Window{Context: 128_000, Output: 16_384}},
	{"gpt-oss", Window{Context: 131_072, Output: 32_768}},
	{"o1", Window{Context: 200_000, Output: 100_000, Firm: true}},
	{"o1-mini", Window{Context: 128_000, Output: 65_536, Firm: true}},
	{"o1-preview", Window{Context: 128_000, Output: 32_768, Firm: true}},
	{"o3", Window{Context: 200_000, Output: 100_000, Firm: true}},
	{"o4-mini", Window{Context: 200_000, Output: 100_000, Firm: true}},
	{"codex-mini", Window{Context: 200_000, Output: 100_000}},

	{"claude-", Window{Context: 200_000, Output: 64_000, Scale: 1.2}},
	{"claude-3-", Window{Context: 200_000, Output: 8_192, Firm: true, Scale: 1.2}},
	{"claude-3-7", Window{Context: 200_000, Output: 64_000, Firm: true, Scale: 1.2}},

	{"gemini-", Window{Context: 1_048_576, Output: 65_536}},
	{"gemini-1.5", Window{Context: 1_048_576, Output: 8_192}},
	{"gemini-2.0", Window{Context: 1_048_576, Output: 8_192}},

	{"codestral", Window{Context: 131_072, Output: 16_384}},
	{"command-", Window{Context: 128_000, Output: 4_096}},
	{"deepseek-", Window{Context: 128_000, Output: 8_192}},
	{"deepseek-reasoner", Window{Context: 128_000, Output: 32_768}},
	{"devstral", Window{Context: 131_072, Output: 16_384}},
	{"glm-4", Window{Context: 128_000, Output: 16_384}},
	{"glm-4.6", Window{Context: 200_000, Output: 65_536}},
	{"grok-", Window{Context: 131_072, Output: 16_384}},
	{"grok-4", Window{Context: 256_000, Output: 32_768}},
	{"kimi-k2", Window{Context: 131_072, Output: 16_384}},
	{"llama-3-", Window{Context: 8_192, Output: 4_096}},
	{"llama-3.", Window{Context: 128_000, Output: 8_192}},
	{"mistral-", Window{Context: 128_000, Output: 8_192}},
	{"moonshot-v1-8k", Window{Context: 8_192, Output: 4_096, Firm: true}},
	{"moonshot-v1-32k", Window{Context: 32_768, Output: 8_192, Firm: true}},
	{"qwen3-coder", Window{Context: 262_144, Output: 65_536}},
}

// scripted is the provider whose models play a scenario, of any length.
const scripted = "scripted"

// Windows are the windows of all models: what is known of their families, and
// what an operator says.
type Windows struct{ set []override }

type override struct {
	prefix string // of a reference, provider/model
	Window
}

// ParseWindows reads what an operator says of models: entries separated by
// commas, each the beginning of references and the tokens of the context, with
// those of the longest answer behind a slash where they are known:
//
//	openai/gpt-5=400000/128000,lab/=32768
//
// 0 means without bound. The longest beginning counts.
func ParseWindows(text string) (Windows, error) {
	var w Windows
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		prefix, sizes, ok := strings.Cut(entry, "=")
		context, output, both := strings.Cut(sizes, "/")
		o := override{prefix: strings.ToLower(strings.TrimSpace(prefix)), Window: Window{Firm: true}}
		var err error
		if o.Context, err = strconv.Atoi(strings.TrimSpace(context)); err == nil && both {
			o.Output, err = strconv.Atoi(strings.TrimSpace(output))
		}
		if !ok || o.prefix == "" || err != nil || o.Context < 0 || o.Output < 0 ||
			o.Context > 0 && o.Output >= o.Context {
			return Windows{}, fmt.Errorf("%.100q is not the window of a model", entry)
		}
		if !both {
			o.Output = min(unknown.Output, o.Context/4)
		}
		w.set = append(w.set, o)
	}
	slices.SortStableFunc(w.set, func(a, b override) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	return w, nil
}

// Of returns the window of the model that ref, provider/model, names.
func (w Windows) Of(ref string) Window {
	ref = strings.ToLower(ref)
	known := family(ref)
	for _, o := range w.set {
		if strings.HasPrefix(ref, o.prefix) {
			o.Scale = known.Scale
			return o.Window
		}
	}
	return known
}

// family returns what is known of a model by its name alone.
func family(ref string) Window {
	provider, name, _ := strings.Cut(ref, "/")
	if provider == scripted {
		return Window{}
	}
	name = name[strings.LastIndexByte(name, '/')+1:] // openrouter/maker/model
	best, found := "", unknown
	for _, f := range families {
		if strings.HasPrefix(name, f.prefix) && len(f.prefix) > len(best) {
			best, found = f.prefix, f.Window
		}
	}
	return found
}

// Capacity returns how many tokens a conversation may have so that an answer of
// limit tokens, the longest one when that is nil, still fits; 0 for no bound.
// However long an answer may be, half of the window is the conversation's.
func (w Window) Capacity(limit *int) int {
	if w.Context == 0 {
		return 0
	}
	answer := w.Output
	if limit != nil {
		answer = min(answer, max(0, *limit))
	}
	return w.Context - min(answer, w.Context/2)
}
