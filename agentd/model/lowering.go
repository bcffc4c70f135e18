package model

// Ways to tell a provider a conversation.
const (
	LoweredFull        = "full"        // all of it
	LoweredIncremental = "incremental" // what came since a response that the provider has
)

// Lowering says how a transport told a provider a request (runtime
// specification, "Provider Prompt Frame"). It holds no secret and no content.
type Lowering struct {
	Mode        string // LoweredFull or LoweredIncremental; "" when nothing is known
	Reason      string // why all of it was told by a transport that need not; see its package
	Items       int    // of the conversation that were told
	Bytes       int    // of the request's body
	CacheKey    bool   // a cache key was sent
	Breakpoints int    // markers of cacheable prefixes that were sent
}

// Lowered notes how req is told, for whoever asked.
func (req *Request) Lowered(l Lowering) {
	if req.Lowering != nil {
		*req.Lowering = l
	}
}
