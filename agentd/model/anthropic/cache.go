package anthropic

// cacheControl marks the end of a prefix that the provider may keep.
type cacheControl struct {
	Type string `json:"type"`
}

// cacheMark is a marker as it stands in a body. No string can hold these bytes,
// since quotes within strings are escaped.
var cacheMark = []byte(`"cache_control":{`)

// markCache marks where what stays the same ends, in the order in which the
// provider reads a request: the tools, which no turn changes; the system's text,
// which a conversation keeps; what the model was told before its last answer; and
// the end, which the next round begins with. The third is where the round before
// ended: a provider looks back only so far from a marker, and an answer may hold
// many calls. That makes the four that the API allows.
func markCache(tools []tool, system []block, messages []message) {
	if n := len(tools); n > 0 {
		tools[n-1].CacheControl = &cacheControl{"ephemeral"}
	}
	mark := func(blocks []block) {
		if n := len(blocks); n > 0 {
			blocks[n-1].CacheControl = &cacheControl{"ephemeral"}
		}
	}
	mark(system)
	marked := 0
	for i := len(messages) - 1; i >= 0 && marked < 2; i-- {
		last := i == len(messages)-1 || messages[i+1].Role == roleAssistant
		if messages[i].Role != roleAssistant && last {
			mark(messages[i].Content)
			marked++
		}
	}
}
