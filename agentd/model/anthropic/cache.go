package anthropic

// cacheControl marks the end of a prefix that the provider may keep.
type cacheControl struct {
	Type string `json:"type"`
}

// cacheMark is an encoded marker. It cannot occur within a string, where quotes are
// escaped.
var cacheMark = []byte(`"cache_control":{`)

// shareable splits the instructions into blocks at the last breakpoint. The first
// shared blocks are a prefix that other conversations may have, too.
func shareable(instructions string, breakpoints []int) (shared int, blocks []block) {
	if blank(instructions) {
		return 0, nil
	}
	if n := len(breakpoints); n > 0 {
		at := breakpoints[n-1]
		if !blank(instructions[:at]) && !blank(instructions[at:]) { // the API refuses blank blocks
			return 1, []block{textBlock(instructions[:at]), textBlock(instructions[at:])}
		}
	}
	return 0, []block{textBlock(instructions)}
}

// markCache marks the prefixes to cache, in the order in which the provider reads a
// request: the tools and the first shared blocks of the system's text, a prefix of
// other conversations, too; all of that text, which a conversation keeps; the
// messages before the model's last answer; and the end, where the next round
// begins. The third is needed because a provider looks back only a limited number
// of blocks from a marker, and an answer may hold many calls. The API allows four.
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
