package anthropic

// cacheControl marks the end of a prefix that the provider may keep.
type cacheControl struct {
	Type string `json:"type"`
}

// cacheMark is a marker as it stands in a body. No string can hold these bytes,
// since quotes within strings are escaped.
var cacheMark = []byte(`"cache_control":{`)

// shareable makes blocks of the instructions. The first of two, shared of them,
// is what other conversations may begin with too: up to the last breakpoint.
func shareable(instructions string, breakpoints []int) (shared int, blocks []block) {
	if blank(instructions) {
		return 0, nil
	}
	if n := len(breakpoints); n > 0 {
		at := breakpoints[n-1]
		if !blank(instructions[:at]) && !blank(instructions[at:]) { // the API takes no blank block
			return 1, []block{textBlock(instructions[:at]), textBlock(instructions[at:])}
		}
	}
	return 0, []block{textBlock(instructions)}
}

// markCache marks where what stays the same ends, in the order in which the
// provider reads a request: the tools and the first shared blocks of the system's
// text, which other conversations begin with too; all of that text, which a
// conversation keeps; what the model was told before its last answer; and
// the end, which the next round begins with. The last but one is where the round before
// ended: a provider looks back only so far from a marker, and an answer may hold
// many calls. That makes the four that the API allows.
func markCache(tools []tool, system []block, shared int, messages []message) {
	if n := len(tools); n > 0 && shared == 0 {
		tools[n-1].CacheControl = &cacheControl{"ephemeral"}
	}
	mark := func(blocks []block) {
		if n := len(blocks); n > 0 {
			blocks[n-1].CacheControl = &cacheControl{"ephemeral"}
		}
	}
	mark(system[:shared]) // the tools come before it
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
