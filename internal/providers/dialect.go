package providers

// Dialect is how an endpoint differs from the others that speak the Chat
// Completions API. The zero value is a server for text and tools that follows
// OpenAI in what it takes and ignores what it does not know, as vLLM and
// llama.cpp do.
type Dialect struct {
	Images       bool       // image_url parts
	Files        bool       // file parts
	NoTools      bool       // functions cannot be offered
	Structured   structured // how an answer is given a form
	MaxTokensKey string     // "max_tokens" when empty
	EffortKey    string     // "reasoning_effort" when empty; "reasoning" takes an object
	Thoughts     Thoughts   // how it wants its reasoning back
	ShortCallIDs bool       // ids of calls have nine letters and digits
	Omit         []string   // keys that it refuses: of the body, or "strict" of a function
}

// structured says how an endpoint is asked for an answer in a form.
type structured uint8

// Ways to ask for a form.
const (
	StructuredSchema structured = iota // response_format json_schema
	StructuredObject                   // json_object alone; the schema is told in words
	StructuredNone                     // not at all
)

// Thoughts says how an endpoint wants to be told what it thought.
type Thoughts uint8

// Ways to tell it.
const (
	// ThoughtsEcho sends reasoning in the key in which it came: a server that
	// writes a key reads it.
	ThoughtsEcho Thoughts = iota
	// ThoughtsDemanded sends reasoning_content with every message that has calls,
	// without which the endpoint refuses the conversation.
	ThoughtsDemanded
	// ThoughtsDropped sends none: the endpoint refuses them.
	ThoughtsDropped
)
