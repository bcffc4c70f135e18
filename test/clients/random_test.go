package clients

import (
	"encoding/json"

	"pgregory.net/rapid"
)

// script is a scenario that was made up. JSON is YAML, so that is how it is
// written.
type script struct {
	Rounds []map[string]any `json:"rounds"`
}

// lookUp declares the function of the client that made-up scenarios call.
const lookUp = `{"type":"function","name":"look_up","parameters":{"type":"object"}}`

// scripts makes up turns of up to four rounds. All but the last call tools of the
// container, so that the turn goes on; the last may call the client's, fail, or
// stop short.
func scripts() *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) (s script) {
		for range rapid.IntRange(0, 3).Draw(t, "rounds before the last") {
			r := words(t)
			r["calls"] = containerCalls(t)
			s.Rounds = append(s.Rounds, r)
		}
		last := words(t)
		switch rapid.SampledFrom([]string{"end", "end", "calls", "both", "refusal", "limit", "filter", "error"}).Draw(t,
			"last") {
		case "end":
			if len(last) == 0 || len(last) == 1 && last["usage"] != nil {
				last["text"] = text(t, "end") // a round has to do something
			}
		case "calls":
			last["calls"] = clientCalls(t)
		case "both":
			last["calls"] = append(containerCalls(t), clientCalls(t)...)
		case "refusal":
			last["refusal"] = text(t, "refusal")
		case "limit":
			last["stop"] = "max_tokens"
		case "filter":
			last["stop"] = "content_filter"
		case "error":
			last["error"] = map[string]any{"status": rapid.SampledFrom([]int{400, 401, 503}).Draw(t, "status"),
				"message": "made up"}
		}
		s.Rounds = append(s.Rounds, last)
		return s
	})
}

// words are what a round says, which may be nothing.
func words(t *rapid.T) map[string]any {
	r := make(map[string]any)
	if rapid.Bool().Draw(t, "thinks") {
		r["reasoning"] = text(t, "reasoning")
	}
	switch rapid.IntRange(0, 2).Draw(t, "says") {
	case 1:
		r["text"] = text(t, "text")
		r["chunk_size"] = rapid.IntRange(1, 9).Draw(t, "chunk size")
	case 2:
		var chunks []string
		for range rapid.IntRange(1, 5).Draw(t, "chunks") {
			chunks = append(chunks, text(t, "chunk"))
		}
		r["chunks"] = chunks
		if rapid.Bool().Draw(t, "slow") {
			r["gap"] = "2ms"
		}
	}
	if rapid.Bool().Draw(t, "counts") {
		r["usage"] = map[string]int{"input_tokens": 7, "output_tokens": 5, "cached_tokens": 3, "reasoning_tokens": 2}
	}
	return r
}

// text has what breaks encoders: quotes, line ends, markup, and runes of every
// length.
func text(t *rapid.T, what string) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("ab \n\"\\<&>é€😀\u2028\u0000\u0085")), 1, 40, -1).Draw(t, what)
}

func containerCalls(t *rapid.T) (calls []map[string]any) {
	for range rapid.IntRange(1, 3).Draw(t, "container calls") {
		calls = append(calls, rapid.SampledFrom([]map[string]any{
			{"tool": "ExecCommand", "arguments": map[string]string{"cmd": "echo '<b>'"}},
			{"tool": "ExecCommand", "arguments": map[string]string{"cmd": "exit 3"}},
			{"tool": "ExecCommand", "raw": "{"},
			{"tool": "NoSuchTool"},
		}).Draw(t, "container call"))
	}
	return calls
}

func clientCalls(t *rapid.T) (calls []map[string]any) {
	for range rapid.IntRange(1, 3).Draw(t, "client calls") {
		calls = append(calls, map[string]any{"tool": "look_up",
			"arguments": map[string]string{"what": text(t, "argument")}})
	}
	return calls
}

func (s script) String() string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
